import { defineConfig } from "vitest/config";

const onOneEngine = ["agent/src/**/*.system.test.ts", "deploy/src/**/*.system.test.ts"];

/** Of `expect.poll`: the machine may do other things for a while. No limit here is there to find what is slow. */
const patient = { poll: { timeout: 60_000 } };

export default defineConfig({
  test: {
    projects: [
      {
        // Pure code and single modules: fast, many files in one process.
        test: {
          name: "unit",
          expect: patient,
          include: ["*/src/**/*.test.ts", "deploy/setup/*.test.mjs", "test/rules/*.test.ts"],
          exclude: ["**/*.system.test.ts", "**/node_modules/**"],
          pool: "forks",
          isolate: false,
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // One module against a real server (etcd, Postgres, Caddy, registry).
        test: {
          name: "system",
          expect: patient,
          globalSetup: ["test/support/postgres.ts"],
          include: ["*/src/**/*.system.test.ts"],
          exclude: ["**/node_modules/**", ...onOneEngine],
          pool: "forks",
          // Each file has servers of its own, and waits most of the time.
          maxWorkers: 3,
          testTimeout: 180_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 2 },
        },
      },
      {
        // Agents and what they build, on the one container engine of this machine.
        test: {
          name: "engine",
          expect: patient,
          globalSetup: ["test/support/engine.ts"],
          include: onOneEngine,
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 300_000,
          sequence: { groupOrder: 3 },
        },
      },
      {
        // The whole platform.
        test: {
          name: "platform",
          expect: patient,
          globalSetup: ["test/support/engine.ts"],
          // Of the real faults those that everybody should see hold; `npm run faults` has them all.
          include: ["test/scenarios/**/*.test.ts", "test/faults/*.short.test.ts"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 4 },
        },
      },
      {
        // The cluster's decisions in a virtual world, and its protocols in every order of events.
        test: {
          name: "sim",
          expect: patient,
          include: ["test/sim/**/*.test.ts"],
          pool: "forks",
          testTimeout: 600_000,
          sequence: { groupOrder: 6 },
        },
      },
      {
        // Real applications from the package registry on the whole platform: `npm run test:apps`.
        test: {
          name: "apps",
          expect: patient,
          globalSetup: ["test/support/engine.ts"],
          include: ["test/apps/*.test.ts"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 5 },
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
          globalSetup: ["test/support/engine.ts"],
          include: ["test/faults/*.test.ts"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 6 },
        },
      },
    ],
  },
});
