import { expect, test } from "vitest";
import { saysSlug, slugLine, withSlugLine } from "./slug-line.ts";

test.each([
  ["below the version", "version: 2\napp: { name: Shop }\n", "version: 2\nslug: shop\napp: { name: Shop }\n"],
  [
    "with every comment, blank and quote where it was",
    "# Ours.\n\nversion:   2   # the form\n\n# What it is\napp:\n    name:  'Shop'\n    type: static # files\n",
    "# Ours.\n\nversion:   2   # the form\nslug: shop\n\n# What it is\napp:\n    name:  'Shop'\n    type: static # files\n",
  ],
  ["wherever the version is", "app: {}\nversion: 2\n", "app: {}\nversion: 2\nslug: shop\n"],
  ["without a last line feed", "app: {}\nversion: 2", "app: {}\nversion: 2\nslug: shop\n"],
  ["with the line feeds of Windows", "version: 2\r\napp: {}\r\n", "version: 2\r\nslug: shop\r\napp: {}\r\n"],
  ["as deep as its neighbours", "---\n  version: 2\n  app: {}\n", "---\n  version: 2\n  slug: shop\n  app: {}\n"],
])("the line is written %s", (_, text, edited) => {
  expect(withSlugLine(text, "shop")).toBe(edited);
});

test.each([
  ["one between braces", "{ version: 2, app: {} }\n"],
  ["one that begins on the line of its mark", "--- # x\n{ version: 2 }\n"],
  ["one without a version", "app: {}\n"],
  ["a list", "- version: 2\n"],
  ["nothing", ""],
])("%s is left alone", (_, text) => {
  expect(withSlugLine(text, "shop")).toBeNull();
});

test.each([
  ["shop", "slug: shop"],
  ["123", 'slug: "123"'],
  ["null", 'slug: "null"'],
  ["1e5", 'slug: "1e5"'],
])("the slug %s is read back as a text", (slug, line) => {
  expect(slugLine(slug)).toBe(line);
  expect(withSlugLine("version: 2\n", slug)).toBe(`version: 2\n${line}\n`);
});

test("a slug of auto is one that somebody chose", () => {
  expect(saysSlug("version: 2\nslug: auto\n")).toBe(true);
  expect(saysSlug("version: 2\napp: { slug: shop }\n")).toBe(false);
});
