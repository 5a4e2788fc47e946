import { describe, expect, test } from "vitest";
import { isPageView, pathOf, referrerHost } from "./page-view.ts";

const said = { address: "", userAgent: "", path: "/", referrer: "", destination: "", optsOut: false };
const visit = { method: "GET", status: 200, said };

describe("a page is viewed", () => {
  test.each([
    {
      when: "a browser says that it is a document",
      it: { ...visit, said: { ...said, destination: "document" } },
      is: true,
    },
    {
      when: "it does, of an odd name",
      it: { ...visit, said: { ...said, destination: "document", path: "/a.js" } },
      is: true,
    },
    { when: "nothing is said of it", it: visit, is: true },
    { when: "the visitor has it already", it: { ...visit, status: 304 }, is: true },
    { when: "it is a file by name", it: { ...visit, said: { ...said, path: "/logo.PNG" } }, is: false },
    { when: "it is a page by name", it: { ...visit, said: { ...said, path: "/a/index.html" } }, is: true },
    { when: "it is an image by what it is for", it: { ...visit, said: { ...said, destination: "image" } }, is: false },
    { when: "it is shown within another", it: { ...visit, said: { ...said, destination: "iframe" } }, is: false },
    { when: "it leads elsewhere", it: { ...visit, status: 308 }, is: false },
    { when: "it is not there", it: { ...visit, status: 404 }, is: false },
    { when: "nobody may see it", it: { ...visit, status: 401 }, is: false },
    { when: "it is sent", it: { ...visit, method: "POST" }, is: false },
    { when: "only its head is wanted", it: { ...visit, method: "HEAD" }, is: false },
    { when: "it is the platform's own", it: { ...visit, said: { ...said, path: "/_svc/password" } }, is: false },
    { when: "the log does not say which", it: { ...visit, said: { ...said, path: "" } }, is: false },
  ])("$is when $when", ({ it, is }) => expect(isPageView(it)).toBe(is));
});

test.each([
  ["/", "/"],
  ["/a%20b/%C3%A9t%C3%A9", "/a b/été"],
  ["/half%C3", "/half%C3"],
  ["/nul%00", "/nul%00"],
  ["/line%0Afeed", "/line%0Afeed"],
  ["/invalid\ufffdbytes\ufffd", "/invalidbytes"],
  ["/pct%2Fslash", "/pct%2Fslash"],
  ["http://elsewhere.test/", "/"],
  ["*", "/"],
  [`/${"x".repeat(500)}`, `/${"x".repeat(199)}`],
  [`/${"é".repeat(150)}`, `/${"é".repeat(99)}`],
])("%s is shown as %s", (sent, shown) => expect(pathOf(sent)).toBe(shown));

test.each([
  ["https://Search.Example.test", "search.example.test"],
  ["http://a.test:8080", "a.test"],
  ["https://a.test.", "a.test"],
  ["https://user:secret@a.test", null],
  ["https://a.test/page?q=secret", null],
  ["https://evil\ufffd.test", null],
  ["https://ev\u0001il.test", null],
  ["android-app://com.example", null],
  ["https://[2001:db8::1]", null],
  ["about:blank", null],
  ["", null],
])("the referrer %j is of host %s", (referrer, host) => expect(referrerHost(referrer)).toBe(host));
