import { expect, test } from "vitest";
import { authorityOf, browserSettings, edgeOf, serverNameOf } from "./browser-settings.ts";

test.each([
  { url: "http://shop.svc.test/", authority: "shop.svc.test:80" },
  { url: "https://shop.svc.test/", authority: "shop.svc.test:443" },
  { url: "http://shop.svc.localhost:8080/", authority: "shop.svc.localhost:8080" },
  { url: "file:///etc/passwd", authority: null },
  { url: "http://[::1]/", authority: null },
  { url: "http://a,MAP b c/", authority: null },
  { url: "", authority: null },
])("$url leads to $authority", ({ url, authority }) => {
  expect(authorityOf(url)).toBe(authority);
});

test("only what is asked over TLS names its server", () => {
  expect(serverNameOf("https://shop.svc.test:8443/")).toBe("shop.svc.test");
  expect(serverNameOf("http://shop.svc.test/")).toBeNull();
});

test.each([
  { text: "192.0.2.1:80", edge: { host: "192.0.2.1", port: 80 } },
  { text: "[2001:db8::1]:443", edge: { host: "2001:db8::1", port: 443 } },
  { text: "edge.test:80", edge: null },
  { text: "192.0.2.1", edge: null },
  { text: "192.0.2.1:0", edge: null },
  { text: "192.0.2.1:70000", edge: null },
])("$text is the edge $edge", ({ text, edge }) => {
  expect(edgeOf(text)).toEqual(edge);
});

test("one name leads to the way out, and no other", () => {
  expect(browserSettings("shop.svc.test:80")).toContain(
    "--host-resolver-rules=MAP shop.svc.test:80 127.0.0.1:3128, MAP * ~NOTFOUND",
  );
});
