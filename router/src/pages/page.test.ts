import { expect, test } from "vitest";
import { pageHeaders, pageHtml, pageJson, pageNames, pages, wantsJson } from "./page.ts";
import { rightSpelling } from "./server.ts";

test.each(pageNames)("the page %s stands alone: nothing to load, to run or to keep", (name) => {
  const page = pages[name];
  const html = pageHtml(page);
  expect(html).toMatch(/^<!doctype html>\n<html lang="en">/);
  expect(html).toContain(`<title>${page.title}</title>`);
  expect(html).not.toMatch(/src=|href=|url\(|@import|<script|<link|<img|https?:/);
  expect(html).toContain("prefers-color-scheme:dark");
  expect(pageHeaders(page)["Cache-Control"]).toBe("no-store");
  expect(JSON.parse(pageJson(page))).toEqual({ ok: false, error: { code: page.code, message: page.text } });
  // Caddy expands what looks like its placeholders.
  expect(html).not.toMatch(/\{(http|env|file|system|time)\./);
  // Texts go into HTML as they are.
  expect(page.title + page.text).not.toMatch(/[<>&"]/);
});

test.each([
  { accept: "application/json", json: true },
  { accept: "application/json, text/plain, */*", json: true },
  { accept: "text/html,application/xhtml+xml,application/json;q=0.9", json: false },
  { accept: "*/*", json: false },
  { accept: "", json: false },
])("Accept: $accept gives JSON: $json", ({ accept, json }) => {
  expect(wantsJson(accept)).toBe(json);
});

test.each([
  { said: "SHOP.test", url: "/a?b", to: "http://shop.test/a?b" },
  { said: "shop.test.:8080", url: "/", to: "http://shop.test:8080/" },
  { said: "shop.test", url: "//evil.test/", to: "http://shop.test//evil.test/" },
  { said: "shop.test", url: "*", to: "http://shop.test/" },
  { said: "other.test", url: "/", to: null },
  { said: "shop.test..", url: "/", to: null },
  { said: "shop.test:80:80", url: "/", to: null },
  { said: "shop.test/", url: "/", to: null },
  { said: "evil.test@shop.test", url: "/", to: null },
  { said: "", url: "/", to: null },
])("$said belongs to $to", ({ said, url, to }) => {
  const serves = (host: string) => host === "shop.test";
  expect(rightSpelling({ "x-svc-host": said }, url, serves)).toBe(to);
  expect(rightSpelling({ "x-svc-host": said, "x-forwarded-proto": "https" }, url, serves)).toBe(
    to?.replace("http:", "https:") ?? null,
  );
});
