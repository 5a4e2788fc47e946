import { expect, test } from "vitest";
import { ConfigError, readConfig } from "./config.ts";

test("everything has a default", () => {
  expect(readConfig({})).toMatchObject({
    dir: "/var/lib/svc/agent",
    address: "127.0.0.1",
    memoryMb: null,
    bootstrapTokenFile: null,
    ports: { first: 20_000, last: 31_999 },
    buildBridge: "docker0",
    labels: {},
    egress: { mode: "closed", allow: [] },
  });
});

test("values are read with their types, empty ones are as good as absent", () => {
  const env = {
    SVC_NODE_MEMORY_MB: "512",
    SVC_NODE_CPU_MILLICORES: "",
    SVC_NODE_LABELS: "zone=a,disk=ssd",
    SVC_AGENT_BUILD_BRIDGE: "",
    SVC_AGENT_EGRESS: "metadata",
    SVC_AGENT_EGRESS_ALLOW: "10.0.0.5:5432, fd00::/8",
    SVC_AGENT_PORTS: "3000-3009",
    SVC_LINK_URL: "https://a.test:7443, https://b.test:7443",
    OTHER: "x",
  };
  expect(readConfig(env)).toMatchObject({
    memoryMb: 512,
    cpuMillicores: null,
    labels: { zone: "a", disk: "ssd" },
    buildBridge: null,
    egress: {
      mode: "metadata",
      allow: [
        { network: "10.0.0.5/32", family: 4, port: 5432 },
        { network: "fd00::/8", family: 6, port: null },
      ],
    },
    ports: { first: 3000, last: 3009 },
    linkUrls: ["https://a.test:7443", "https://b.test:7443"],
    enrollUrls: ["https://127.0.0.1:7444"],
  });
});

test.each([
  { SVC_AGENT_ADDRESS: "localhost" },
  { SVC_AGENT_ADDRESS: "0.0.0.0" },
  { SVC_METRICS_LISTEN: "0.0.0.0:9100" },
  { SVC_LINK_URL: "http://127.0.0.1:7443" },
  { SVC_LINK_URL: "https://a.test:7443,https://a.test:7443" },
  { SVC_ENROLL_URL: Array.from({ length: 10 }, (_, n) => `https://c${n}.test:7444`).join(",") },
  { SVC_AGENT_SUBNETS: "10.0.0.0" },
  { SVC_AGENT_SUBNETS: "10.0.0.0/30" },
  { SVC_AGENT_PORTS: "9-1" },
  { SVC_AGENT_EGRESS: "most" },
  { SVC_AGENT_EGRESS_ALLOW: "db.example.test:5432" },
  { SVC_NODE_MEMORY_MB: "much" },
  { SVC_NODE_LABELS: "zone" },
  { SVC_LOG_LEVEL: "loud" },
])("%o is refused by its name", (env) => {
  expect(() => readConfig(env)).toThrow(ConfigError);
  expect(() => readConfig(env)).toThrow(Object.keys(env)[0]);
});
