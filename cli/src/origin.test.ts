import { describe, expect, test } from "vitest";
import { isLoopback, parseApiUrl, sameOrigin, webUrl } from "./origin.ts";

test.each([
  ["svc.example.test", "https://svc.example.test"],
  ["svc.example.test:8443", "https://svc.example.test:8443"],
  ["https://svc.example.test/", "https://svc.example.test"],
  ["HTTPS://SVC.example.test", "https://svc.example.test"],
  ["http://127.0.0.1:4000", "http://127.0.0.1:4000"],
  ["http://localhost:4000/", "http://localhost:4000"],
  ["http://api.svc.localhost", "http://api.svc.localhost"],
  ["http://[::1]:4000", "http://[::1]:4000"],
  // A bare host means https, also on this machine.
  ["localhost:4000", "https://localhost:4000"],
])("%s names the API at %s", (text, url) => {
  expect(parseApiUrl(text)).toEqual({ url });
});

test.each([
  "http://svc.example.test",
  "http://127.0.0.1.example.test",
  "http://localhost.example.test",
  "http://192.168.1.4:4000",
  "https://user:secret@svc.example.test",
  "https://svc.example.test/api/v1",
  "https://svc.example.test/?x=1",
  "https://svc.example.test/#x",
  "ftp://svc.example.test",
  "file:///etc/passwd",
  "javascript://x",
  "",
  "   ",
  "https://",
  "not a host",
])("%s is refused as the API", (text) => {
  expect(parseApiUrl(text)).toHaveProperty("problem");
});

describe("a browser is given", () => {
  test.each([
    ["https://shop.example.test", "https://shop.example.test/"],
    ["http://shop.svc.localhost:8080/a b", "http://shop.svc.localhost:8080/a%20b"],
    ["https://a.test/?x=1&calc", "https://a.test/?x=1&calc"],
  ])("%s as %s", (text, url) => {
    expect(webUrl(text)).toBe(url);
  });
  test.each([
    "file:///etc/passwd",
    "javascript:alert(1)",
    "vscode://x",
    "--help",
    "https://a:b@c.test",
    "https://a&calc",
    "",
  ])("not %s as it stands", (text) => {
    expect(webUrl(text) ?? "refused").not.toBe(text);
  });
});

test.each([
  ["localhost", true],
  ["shop.svc.localhost", true],
  ["127.0.0.5", true],
  ["[::1]", true],
  ["localhost.example.test", false],
  ["notlocalhost", false],
  ["128.0.0.1", false],
])("%s is on this machine: %s", (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});

test.each([
  ["https://a.test", "https://a.test:443", true],
  ["http://localhost:4000", "http://127.0.0.1:4000", true],
  ["http://localhost:4000", "http://127.0.0.1:4001", false],
  ["http://localhost:4000", "https://localhost:4000", false],
  ["https://a.test", "https://b.test", false],
])("%s and %s are the same place: %s", (left, right, expected) => {
  expect(sameOrigin(left, right)).toBe(expected);
});
