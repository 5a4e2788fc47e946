import { expect, test } from "vitest";
import { comesFromOwnPage } from "./origin.ts";

const own = "https://control.svc.test";

test.each([
  { when: "it only reads", method: "GET", headers: {}, allowed: true },
  { when: "it only reads, from elsewhere", method: "HEAD", headers: { origin: "https://evil.test" }, allowed: true },
  { when: "the page is ours", method: "POST", headers: { origin: own }, allowed: true },
  {
    when: "the browser says same origin and sends no Origin",
    method: "POST",
    headers: { "sec-fetch-site": "same-origin" },
    allowed: true,
  },
  { when: "the page is another's", method: "POST", headers: { origin: "https://evil.test" }, allowed: false },
  {
    when: "the page is another's and claims to be same origin",
    method: "POST",
    headers: { origin: "https://evil.test", "sec-fetch-site": "same-origin" },
    allowed: false,
  },
  {
    when: "the page is a tenant's on a sibling host",
    method: "DELETE",
    headers: { origin: "https://shop.svc.test", "sec-fetch-site": "same-site" },
    allowed: false,
  },
  { when: "the port differs", method: "POST", headers: { origin: `${own}:8443` }, allowed: false },
  { when: "the scheme differs", method: "POST", headers: { origin: "http://control.svc.test" }, allowed: false },
  { when: "the origin is opaque", method: "POST", headers: { origin: "null" }, allowed: false },
  { when: "nothing tells where it comes from", method: "PATCH", headers: {}, allowed: false },
])("allowed is $allowed when $when", ({ method, headers, allowed }) => {
  expect(comesFromOwnPage(method, headers, own)).toBe(allowed);
});
