import { describe, expect, test } from "vitest";
import { apexOf, isApex, readDomain, wwwTwinOf } from "./domains.ts";

const own = ["apps.example.org", "svc.example.org", "www.platform.example"];
const read = (text: string) => readDomain(text, own);

describe("what is taken", () => {
  test.each([
    ["shop.example", "shop.example"],
    ["Shop.Example.NET", "shop.example.net"],
    ["shop.example.net.", "shop.example.net"],
    ["  shop.example.net ", "shop.example.net"],
    ["bücher.example.net", "xn--bcher-kva.example.net"],
    ["xn--bcher-kva.example.net", "xn--bcher-kva.example.net"],
    ["ｓｈｏｐ.example.net", "shop.example.net"],
    ["例え。example.net", "xn--r8jz45g.example.net"],
    ["москва.example.net", "xn--80adxhks.example.net"],
    ["svc.example.net", "svc.example.net"],
    ["example.org", "example.org"],
    ["notapps.example.org", "notapps.example.org"],
    ["a-b.example.co.uk", "a-b.example.co.uk"],
    ["shop.github.io", "shop.github.io"],
  ])("%s is %s", (text, domain) => {
    expect(read(text)).toEqual({ domain });
  });
});

describe("what is refused", () => {
  test.each([
    ["a wildcard", "*.example.net", /wildcard/],
    ["an underscore", "_svc.example.net", /underscore/],
    ["a port", "example.net:443", /no scheme, port or path/],
    ["a scheme", "https://example.net", /no scheme/],
    ["an IPv4 address", "192.0.2.1", /IP address/],
    ["an IPv4 address in hex", "0x7f.1", /IP address/],
    ["an IPv6 address", "[::1]", /no scheme/],
    ["an escape", "ex%61mple.net", /no scheme/],
    ["nothing", "", /no scheme/],
    ["a dot alone", ".", /no scheme/],
    ["two dots at the end", "example.net..", /not a domain name/],
    ["an empty label", "a..example.net", /not a domain name/],
    ["a hyphen at an end", "-a.example.net", /not a domain name/],
    ["a label of 64", `${"a".repeat(64)}.example.net`, /not a domain name/],
    ["a name of 254", `${"a.".repeat(121)}example.net${"x".repeat(2)}`, /not a domain name|public/],
    ["one label", "intranet", /two labels/],
    ["localhost", "a.localhost", /no public DNS/],
    ["a name of tests", "shop.test", /no public DNS/],
    ["an internal name", "db.internal", /no public DNS/],
    ["a name of the house", "printer.home.arpa", /no public DNS/],
    ["an onion", "abc.onion", /no public DNS/],
    ["a public suffix", "co.uk", /public suffix/],
    ["a private suffix", "github.io", /public suffix/],
    ["the content domain", "apps.example.org", /platform's own/],
    ["a host below the content domain", "shop.apps.example.org", /platform's own/],
    ["the API's host in capitals", "SVC.example.org.", /platform's own/],
    ["a name whose www is the platform's", "platform.example", /platform's own/],
    ["scripts that are mixed", "pаypal.example.net", /mixes letters/],
    ["Cyrillic that reads as Latin", "аррӏе.example.net", /Latin letters/],
    ["the same as A-labels", "xn--80ak6aa92e.com", /Latin letters/],
    ["Greek that reads as Latin", "κοινο.example", /Latin letters/],
    ["A-labels of nothing", "xn--a.example.net", /not a domain name|not the spelling/],
    ["A-labels of ASCII", "xn--shop-.example.net", /not a domain name|not the spelling/],
  ])("%s", (_, text, why) => {
    expect(read(text)).toEqual({ problem: expect.stringMatching(why) });
  });
});

test("an apex is what the public suffix list leaves to one owner", () => {
  expect(["example.net", "example.co.uk", "shop.github.io", "shop.example"].map(isApex)).toEqual([
    true,
    true,
    true,
    true,
  ]);
  expect(["a.example.net", "a.b.example.co.uk", "a.shop.github.io"].map(isApex)).toEqual([false, false, false]);
  expect(["a.b.example.co.uk", "example.net"].map(apexOf)).toEqual(["example.co.uk", "example.net"]);
});

test("an apex has a twin and nothing else has", () => {
  expect(wwwTwinOf("example.net")).toBe("www.example.net");
  expect(wwwTwinOf("www.example.net")).toBeNull();
  expect(wwwTwinOf("shop.example.net")).toBeNull();
});
