import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { defaultCacheDir } from "./deploy/src/paths.ts";
import { patchedSource } from "./test/sim/mutants/patchable.ts";
import { LongestFirst } from "./test/support/longest-first.ts";

// Most test files have a process of their own, which otherwise compiles every package that it imports anew.
process.env["NODE_COMPILE_CACHE"] ??= join(defaultCacheDir(process.env), "compiled");

const cores = availableParallelism();
/** Whole platforms at once: each waits a part of the time, and takes its gigabyte of memory. */
const lanes = Math.min(4, cores + 1);
/** Agents at once, and database servers with their keepers: they wait most of the time. */
const engineLanes = Math.min(6, 2 * cores);

/**
 * Judges how long something takes, or starts the platform at the one place that `npm start` has for it, or is more
 * programs than the others: nothing else runs meanwhile.
 */
const alone = ["test/scenarios/ha.test.ts", "test/scenarios/npm-start.test.ts", "test/faults/*.short.test.ts"];

/** The engine, and the command line as users have it. */
const wholePlatforms = ["test/support/engine.ts", "cli/src/testing/bundle.ts"];

const onOneEngine = ["agent/src/**/*.system.test.ts", "deploy/src/**/*.system.test.ts"];

/** Of `expect.poll`: the machine may do other things for a while. No limit here is there to find what is slow. */
const patient = { poll: { timeout: 60_000 } };

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        // Pure code and single modules: fast, many files in one process.
        test: {
          name: "unit",
          expect: patient,
          include: [
            "*/src/**/*.test.ts",
            "deploy/setup/*.test.mjs",
            "test/rules/*.test.ts",
            "test/faults/support/*.test.ts",
          ],
          exclude: ["**/*.system.test.ts", "**/node_modules/**"],
          pool: "forks",
          isolate: false,
          // By itself it would leave a core alone, for whoever watches files.
          maxWorkers: cores,
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // One module against a real server (etcd, Postgres, Caddy, registry).
        test: {
          name: "system",
          expect: patient,
          globalSetup: ["test/support/postgres.ts", "cli/src/testing/bundle.ts"],
          include: ["*/src/**/*.system.test.ts"],
          exclude: ["**/node_modules/**", ...onOneEngine],
          pool: "forks",
          // What control imports takes a process a second to load: files follow one another in one, and wait most of the
          // time. They share a Postgres, and have databases and other servers of their own.
          isolate: false,
          maxWorkers: Math.min(8, cores + 1),
          testTimeout: 180_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 2 },
        },
      },
      {
        // Agents and what they build, on the one container engine of this machine, as agents of one machine share it.
        test: {
          name: "engine",
          expect: patient,
          globalSetup: ["test/support/engine.ts"],
          include: onOneEngine,
          pool: "forks",
          maxWorkers: engineLanes,
          testTimeout: 300_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 3 },
        },
      },
      {
        // The whole platform, several beside one another.
        test: {
          name: "platform",
          expect: patient,
          globalSetup: wholePlatforms,
          include: ["test/scenarios/**/*.test.ts"],
          exclude: ["**/node_modules/**", ...alone],
          pool: "forks",
          maxWorkers: lanes,
          testTimeout: 300_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 4 },
        },
      },
      {
        // The cluster's decisions in a virtual world, and its protocols in every order of events: beside the platforms.
        plugins: [
          {
            name: "doors for planted bugs",
            enforce: "pre",
            transform: (code: string, id: string) => patchedSource(id, () => code),
          },
        ],
        test: {
          name: "sim",
          expect: patient,
          include: ["test/sim/**/*.test.ts"],
          pool: "forks",
          maxWorkers: lanes,
          testTimeout: 600_000,
          sequence: { groupOrder: 4 },
        },
      },
      {
        // The whole platform and nothing beside it. Of the real faults those that everybody should see hold;
        // `npm run faults` has them all.
        test: {
          name: "alone",
          expect: patient,
          globalSetup: wholePlatforms,
          include: alone,
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 5 },
        },
      },
      {
        // Real applications from the package registry on the whole platform: `npm run test:apps`.
        test: {
          name: "apps",
          expect: patient,
          globalSetup: wholePlatforms,
          include: ["test/apps/*.test.ts"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 6 },
        },
      },
      {
        // What set-up installs and what engines do on releases of Debian, each in a root of its own: `npm run test:debian`.
        test: {
          name: "debian",
          expect: patient,
          include: ["test/debian/*.test.ts"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 1_800_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 7 },
        },
      },
      {
        // Real faults on several machines with engines and networks of their own, as root: `npm run faults`.
        test: {
          name: "faults",
          expect: patient,
          globalSetup: wholePlatforms,
          include: ["test/faults/*.test.ts"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 8 },
        },
      },
    ],
  },
});
