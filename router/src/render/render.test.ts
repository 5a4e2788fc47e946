import { describe, expect, test } from "vitest";
import { hostPattern } from "../names.ts";
import { caddyProblem, permissionModule } from "./caddy-version.ts";
import { inFrontProblem } from "./proxied.ts";
import { bootConfig, type RenderOptions, renderConfig } from "./render.ts";
import { foreignCookieDomain } from "./site-routes.ts";

const options: RenderOptions = {
  caddyVersion: "2.6.2",
  httpListen: "127.0.0.1:8080",
  httpsListen: "127.0.0.1:8443",
  tls: "internal",
  adminSocket: "/run/svc/caddy.sock",
  tableDir: "/run/svc/table",
  bundlesDir: "/var/lib/svc/router/bundles",
  immutablesDir: "/var/lib/svc/router/bundles/.immutable",
  trafficDir: "/run/svc/traffic",
  pagesListen: "127.0.0.1:7480",
  contentDomain: "svc.localhost",
  certificatesListen: "127.0.0.1:7481",
  certificatesDir: "/run/svc/certificates",
  certificatesPath: "secret",
  challengesDir: "/run/svc/challenges",
  answerTimeoutMs: 120_000,
  logsVisits: true,
  entrance: null,
  inFront: { by: "none" },
  closing: false,
  hasEdgeModule: false,
};
const text = (change: Partial<RenderOptions> = {}) => JSON.stringify(renderConfig({ ...options, ...change }));

describe("what stands in front", () => {
  const ranges = ["10.1.0.0/24", "10.2.0.7"];
  const newer = { caddyVersion: "v2.11.4" };

  test.each([
    { by: "header", caddyVersion: "2.6.2", needs: true },
    { by: "proxy-protocol", caddyVersion: "2.7.6", needs: true },
    { by: "header", caddyVersion: "v2.8.4 h1:x=", needs: false },
    { by: "none", caddyVersion: "2.6.2", needs: false },
  ] as const)("$by is asked too much of Caddy $caddyVersion: $needs", ({ by, caddyVersion, needs }) => {
    expect(inFrontProblem(by === "none" ? { by } : { by, ranges }, caddyVersion) !== null).toBe(needs);
  });

  test("is believed within its ranges, and only that", () => {
    const byHeader = text({ ...newer, inFront: { by: "header", ranges } });
    expect(
      byHeader.match(/"trusted_proxies":\{"source":"static","ranges":\["10.1.0.0\/24","10.2.0.7"\]\}/g),
    ).toHaveLength(2);
    expect(byHeader.match(/"trusted_proxies_strict":1/g)).toHaveLength(2);
    expect(byHeader).not.toContain("{http.request.remote.host}");
    const byProtocol = text({ ...newer, tls: "acme", inFront: { by: "proxy-protocol", ranges } });
    expect(
      byProtocol.match(/"wrapper":"proxy_protocol","timeout":"5s","allow":\["10.1.0.0\/24","10.2.0.7"\]/g),
    ).toHaveLength(2);
    expect(byProtocol).not.toContain("h3");
    expect(text()).not.toMatch(/trusted_proxies|listener_wrappers|client_ip\}/);
  });
});

describe("renderConfig", () => {
  test("gives equal bytes for equal options", () => {
    expect(text()).toBe(JSON.stringify(renderConfig(structuredClone(options))));
  });

  test("listens where it is told and nowhere else", () => {
    const listens = (change: Partial<RenderOptions>) =>
      [...text(change).matchAll(/"listen":(\[[^\]]*\]|"[^"]*")/g)].map(([, at]) => at);
    expect(listens({})).toEqual([
      '"unix//run/svc/caddy.sock"',
      '["127.0.0.1:8080"]',
      '["unix//run/svc/caddy.sock.rules"]',
      '["127.0.0.1:8443"]',
      '["127.0.0.1:7481"]',
    ]);
    expect(listens({ tls: "off" })).toEqual([
      '"unix//run/svc/caddy.sock"',
      '["127.0.0.1:8080"]',
      '["unix//run/svc/caddy.sock.rules"]',
    ]);
    for (const tls of ["internal", "acme", "off"] as const) {
      expect(text({ tls }).match(/"automatic_https":\{"disable":true\}/g)).toHaveLength(tls === "off" ? 2 : 4);
    }
  });

  test("shows a certificate at entrances and nowhere else, and at none without", () => {
    const entrance = { certificate: "/e/certificate.pem", key: "/e/key.pem", ca: "/e/ca.pem" };
    const transports = [
      ...text({ entrance }).matchAll(/"response_header_timeout":"120000ms"[^}]*\}(,"tls":\{[^}]*\})?/g),
    ];
    const shown = transports.filter(([, tls]) => tls !== undefined);
    // The short way past a password is for apps without entrances: one more in each of the two servers.
    expect(shown).toHaveLength(transports.length - shown.length - 2);
    for (const [, tls] of shown) {
      expect(tls).toContain('"root_ca_pem_files":["/e/ca.pem"],"client_certificate_file":"/e/certificate.pem"');
      // Whoever shows any certificate would be believed.
      expect(tls).not.toContain("insecure");
    }
    expect(text()).not.toContain("client_certificate");
  });

  test.each([
    { caddyVersion: "2.6.2", has: '"on_demand":{"ask":"http://127.0.0.1:7480/ask"}' },
    { caddyVersion: "v2.7.6 h1:abc=", has: '"on_demand":{"ask":"http://127.0.0.1:7480/ask"}' },
    {
      caddyVersion: "v2.8.0",
      has: '"on_demand":{"permission":{"module":"http","endpoint":"http://127.0.0.1:7480/ask"}}',
    },
    {
      caddyVersion: "2.11.4",
      has: '"on_demand":{"permission":{"module":"http","endpoint":"http://127.0.0.1:7480/ask"}}',
    },
  ])("asks before a certificate in the words of $caddyVersion", ({ caddyVersion, has }) => {
    expect(text({ caddyVersion })).toContain(has);
    expect(text({ caddyVersion, tls: "acme" })).not.toContain('"on_demand"');
  });

  test.each([
    { version: "2.6.2", module: false },
    { version: "2.7.9", module: false },
    { version: "v2.8.4 h1:x", module: true },
    { version: "2.10.0", module: true },
    { version: "3.0.0", module: true },
    { version: "(devel)", module: true },
  ])("$version has a permission module: $module", ({ version, module }) => {
    expect(permissionModule(version)).toBe(module);
  });

  test("installs no authority into the system", () => {
    expect(text()).toContain('"install_trust":false');
    expect(text({ tls: "acme" })).not.toContain("install_trust");
  });

  test("makes no certificate itself where control gets them, whatever the name", () => {
    // One is what answers in the place of a router that is away.
    expect(text({ tls: "acme" }).match(/"status_code":204/g)).toHaveLength(1);
    expect(text({ tls: "internal" }).match(/"status_code":204/g)).toHaveLength(2);
  });

  test.each([
    { version: "2.5.2", isTooOld: true },
    { version: "v2.6.1 h1:x", isTooOld: true },
    { version: "2.6.2", isTooOld: false },
    { version: "v2.11.4 h1:x", isTooOld: false },
    { version: "(devel)", isTooOld: false },
  ])("$version is too old: $isTooOld", ({ version, isTooOld }) => {
    const problem = caddyProblem(version);
    expect(problem !== null).toBe(isTooOld);
    if (problem !== null) expect(problem).toContain("at least 2.6.2");
  });

  test("with public certificates plain HTTP only redirects", () => {
    const config = text({ tls: "acme", httpListen: ":80", httpsListen: ":443" });
    expect(config).toContain('"Location":["https://{http.request.host}{http.request.uri}"]');
    expect(text({ tls: "acme" })).toContain('"Location":["https://{http.request.host}:8443{http.request.uri}"]');
  });

  test("counts no failures per placeholder", () => {
    const watched: { upstreams: object[] }[] = [];
    JSON.parse(text(), (_, value) => {
      if (value?.health_checks !== undefined) watched.push(value);
      return value;
    });
    expect(watched.length).toBeGreaterThan(0);
    for (const { upstreams } of watched) expect(JSON.stringify(upstreams)).not.toContain("{http.");
  });

  test("the configuration to start with holds the administration and nothing else", () => {
    expect(bootConfig("/run/svc/caddy.sock")).toEqual({ admin: { listen: "unix//run/svc/caddy.sock" } });
    expect(renderConfig(options)["admin"]).toEqual(bootConfig("/run/svc/caddy.sock")["admin"]);
  });

  test("keeps the pattern for hosts in words that Go's expressions have too", () => {
    expect(hostPattern).not.toMatch(/\(\?[=!<]|\\[1-9]/);
  });
});

describe("with the module of edge-module", () => {
  const withModule = (change: Partial<RenderOptions> = {}) => text({ hasEdgeModule: true, ...change });

  test("everything that visitors ask goes through it, and nothing is logged beside it", () => {
    expect(withModule().match(/"handler":"svc_edge"/g)).toHaveLength(2);
    expect(withModule({ tls: "off" }).match(/"handler":"svc_edge"/g)).toHaveLength(1);
    expect(withModule()).toContain('"socket":"/run/svc/caddy.sock.table","visits":"/run/svc/traffic"');
    const { http, https } = JSON.parse(withModule()).apps.http.servers;
    expect(JSON.stringify([http, https])).not.toMatch(/"logs":\{\}|\{http\.auth\.user\.id\}/);
    expect(text()).not.toContain("svc_edge");
  });

  test.each(["http", "https"] as const)("what it does not know goes the way that it would without (%s)", (server) => {
    // The first are what CAs ask for.
    const routesIn = (config: string) => JSON.parse(config).apps.http.servers[server].routes.slice(1);
    const [only, ...more] = routesIn(withModule({ logsVisits: false, caddyVersion: "v2.11.4" }));
    expect(more).toEqual([]);
    expect(only.handle[0].otherwise).toEqual(routesIn(text({ logsVisits: false, caddyVersion: "v2.11.4" })));
  });

  test("it leads on to HTTPS before an app where names have certificates", () => {
    const { kinds } = JSON.parse(withModule({ tls: "acme" })).apps.http.servers.http.routes[1].handle[0];
    for (const routes of Object.values(kinds))
      expect(JSON.stringify(routes)).toContain("https://{http.request.host}:8443");
  });

  test("it serves entrances where the edge has something to show there", () => {
    const entrance = { certificate: "/e/certificate.pem", key: "/e/key.pem", ca: "/e/ca.pem" };
    expect(withModule()).not.toContain('"t1":');
    expect(withModule({ entrance })).toMatch(/"t1":.*"t10":/);
  });
});

test("the pattern for cookie domains takes dots literally", () => {
  const pattern = foreignCookieDomain("apps.example.test").replace("(?i)", "");
  const strip = (cookie: string) => cookie.replace(new RegExp(pattern, "gi"), "$1");
  expect(strip("a=1; Domain=apps.example.test")).toBe("a=1");
  expect(strip("a=1; Domain=.example.test; Path=/")).toBe("a=1; Path=/");
  expect(strip("a=1; Domain=appsXexample.test")).toBe("a=1; Domain=appsXexample.test");
  expect(strip("a=1; Domain=shop.apps.example.test")).toBe("a=1; Domain=shop.apps.example.test");
});
