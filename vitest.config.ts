import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        // Pure code and single modules: fast, many files in one process.
        test: {
          name: "unit",
          include: ["*/src/**/*.test.ts"],
          exclude: ["**/*.system.test.ts", "**/node_modules/**"],
          pool: "forks",
          isolate: false,
          testTimeout: 20_000,
        },
      },
      {
        // One module against a real server (etcd, Postgres, Docker, Caddy, registry).
        test: {
          name: "system",
          include: ["*/src/**/*.system.test.ts"],
          exclude: ["**/node_modules/**"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
      {
        // The whole platform.
        test: {
          name: "platform",
          include: ["test/scenarios/**/*.test.ts"],
          pool: "forks",
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
});
