import { expect, test } from "vitest";
import { isOwnHost } from "./own-host.ts";

test.each([
  { host: "svc.example.test", own: true },
  { host: "SVC.example.test", own: true },
  { host: "svc.example.test:443", own: true },
  { host: "svc.example.test:8443", own: true },
  { host: "example.test", own: false },
  { host: "svc.example.test.", own: false },
  { host: "evil-svc.example.test", own: false },
  { host: "svc.example.test.evil.test", own: false },
  { host: "127.0.0.1", own: false },
  { host: undefined, own: false },
])("$host is our own: $own", ({ host, own }) => {
  expect(isOwnHost(host, "https://svc.example.test")).toBe(own);
});

test.each([
  { host: "[::1]:4000", own: true },
  { host: "[::1]", own: true },
  { host: "[::2]:4000", own: false },
])("of an API at an IPv6 address $host is our own: $own", ({ host, own }) => {
  expect(isOwnHost(host, "http://[::1]:4000")).toBe(own);
});
