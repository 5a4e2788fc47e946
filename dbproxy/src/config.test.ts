import { expect, test } from "vitest";
import { ConfigError, readConfig } from "./config.ts";

test("without any setting it listens at the engines' own ports, and for no other machine", () => {
  expect(readConfig({})).toMatchObject({
    ports: { postgres: 5432, mariadb: 3306 },
    ...{ peerListen: null, metricsListen: null, serverMs: 3_000, drainMs: 600_000 },
  });
});

test.each([
  { SVC_DBPROXY_POSTGRES_PORT: "80" },
  { SVC_DBPROXY_MARIADB_PORT: "5432" },
  { SVC_DBPROXY_PEER_LISTEN: "everywhere" },
  { SVC_METRICS_LISTEN: "0.0.0.0:9100" },
  { SVC_DBPROXY_SERVER_SECONDS: "0" },
])("%o is refused, by its name", (env) => {
  const [name = ""] = Object.keys(env);
  expect(() => readConfig(env)).toThrow(ConfigError);
  expect(() => readConfig(env)).toThrow(name);
});
