import { describe, expect, test } from "vitest";
import { isImmutable } from "./immutable.ts";

describe("isImmutable", () => {
  test.each([
    "/assets/index-BxK2a9_f.js",
    "/assets/index-BxK2a9_f.js.map",
    "/assets/nested/chunk-K3A9B2CD.css",
    "/assets/index-BxK2a9_f.js.br",
    "/assets/index-BxK2a9_f.js.map.gz",
    "/static/js/main.3f2a1b9c.js",
    "/static/js/787.28cb0dcd.chunk.js",
    "/build/app-0123456789abcdef0123.css",
    "/_astro/hoisted.js",
    "/_next/static/abc/_buildManifest.js",
    "/_nuxt/entry.js",
    "/_app/immutable/start.js",
  ])("%s", (path) => expect(isImmutable(path)).toBe(true));

  test.each([
    "/index.html",
    "/style.css",
    "/assets/logo.png",
    "/assets/hero-background.png",
    "/assets/photo-20240101.jpg",
    "/assets/IMG-Portrait.jpg",
    "/assets/icon-darkMode.svg",
    "/assets/report-2024-final.pdf",
    "/images/index-BxK2a9_f.js",
    "/x/assets/index-BxK2a9_f.js",
    "/_next/data/x.json",
    "/assets/",
  ])("not %s", (path) => expect(isImmutable(path)).toBe(false));
});
