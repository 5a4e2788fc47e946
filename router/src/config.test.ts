import { expect, test } from "vitest";
import { ConfigError, readConfig } from "./config.ts";

test("has a default for every setting", () => {
  expect(readConfig({})).toMatchObject({
    dir: "/var/lib/svc/router",
    tls: "internal",
    pagesListen: { host: "127.0.0.1", port: 7480 },
    bootstrapTokenFile: null,
    linkUrls: ["https://127.0.0.1:7443"],
    certificatesListen: "127.0.0.1:7481",
  });
});

test.each([
  { setting: "SVC_EDGE_HTTP", value: "8080" },
  { setting: "SVC_EDGE_TLS", value: "yes" },
  { setting: "SVC_LINK_URL", value: "http://control.test" },
  { setting: "SVC_ENROLL_URL", value: "https://a.test,https://a.test" },
  { setting: "SVC_CONTENT_DOMAIN", value: "Sites.test" },
  { setting: "SVC_CONTENT_DOMAIN", value: "sites.test." },
  { setting: "SVC_ROUTER_TABLE_DIR", value: "/run/{env.HOME}" },
  { setting: "SVC_ROUTER_DIR", value: "/var/*" },
  { setting: "SVC_CADDY_ADMIN", value: `/run/${"a".repeat(120)}` },
  { setting: "SVC_METRICS_LISTEN", value: ":9100" },
  { setting: "SVC_METRICS_LISTEN", value: "198.51.100.7:9100" },
  { setting: "SVC_ROUTER_LISTEN", value: "0.0.0.0:7480" },
  { setting: "SVC_LOG_LEVEL", value: "loud" },
  { setting: "SVC_EDGE_PROXY", value: "yes" },
  { setting: "SVC_EDGE_HEALTH_LISTEN", value: ":7482" },
  { setting: "SVC_EDGE_DRAIN_SECONDS", value: "-1" },
])("refuses $setting=$value by name", ({ setting, value }) => {
  expect(() => readConfig({ [setting]: value })).toThrow(ConfigError);
  expect(() => readConfig({ [setting]: value })).toThrow(setting);
});

test.each([
  { proxy: "header", ranges: "" },
  { proxy: "none", ranges: "10.0.0.0/8" },
  { proxy: "header", ranges: "0.0.0.0/0" },
  { proxy: "header", ranges: "10.0.0.0/33" },
  { proxy: "proxy-protocol", ranges: "10.0.0.1,,10.0.0.2" },
  { proxy: "proxy-protocol", ranges: "balancer.test" },
  { proxy: "proxy-protocol", ranges: "private_ranges" },
])("does not believe $ranges with SVC_EDGE_PROXY=$proxy", ({ proxy, ranges }) => {
  expect(() => readConfig({ SVC_EDGE_PROXY: proxy, SVC_EDGE_PROXY_RANGES: ranges })).toThrow(/SVC_EDGE_PROXY_RANGES/);
});

test("believes what is named", () => {
  const given = { SVC_EDGE_PROXY: "header", SVC_EDGE_PROXY_RANGES: "10.1.0.0/24, 10.2.0.7,fd00::/64" };
  expect(readConfig(given).inFront).toEqual({ by: "header", ranges: ["10.1.0.0/24", "10.2.0.7/32", "fd00::/64"] });
});

test("an empty setting is none, and others are ignored", () => {
  expect(readConfig({ SVC_EDGE_HTTP: "", SVC_API_URL: "x" }).httpListen).toBe("127.0.0.1:8080");
});
