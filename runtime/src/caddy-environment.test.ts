import { expect, test } from "vitest";
import { caddyEnvironment } from "./caddy-environment.ts";

test.each([
  { machineGb: 1, limit: "512MiB" },
  { machineGb: 2, limit: "512MiB" },
  { machineGb: 16, limit: "4096MiB" },
])("on a machine of $machineGb GiB Caddy clears up rarely, until it has $limit", ({ machineGb, limit }) => {
  expect(caddyEnvironment(machineGb * 1024 ** 3)).toEqual({ GOGC: "400", GOMEMLIMIT: limit });
});
