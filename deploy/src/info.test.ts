import { expect, test } from "vitest";
import { renderInfo } from "./info.ts";

const info = (apiUrls: string[]) => ({
  ...{ apiUrl: apiUrls[0] ?? "", apiUrls, edgeHttp: "http://127.0.0.1:8080", edgeHttps: "https://127.0.0.1:8443" },
  ...{ contentDomain: "svc.localhost", admin: { email: "admin@svc.localhost", password: "a password" } },
  ...{ outbox: "outbox", dnsRecords: null, registry: "127.0.0.1:4500", examples: [] },
});

test("with several replicas of control it is said that any of them lets people in", () => {
  expect(renderInfo(info(["http://127.0.0.1:4000"]))).not.toContain("any of");
  expect(renderInfo(info(["http://127.0.0.1:4000", "http://127.0.0.1:4010"]))).toMatch(
    /login --api-url http:\/\/127.0.0.1:4000\n +any of these addresses will do: http:\/\/127.0.0.1:4000 {2}http:\/\/127.0.0.1:4010/,
  );
});
