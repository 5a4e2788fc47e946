import { describe, expect, test } from "vitest";
import { servedAs, siteDoubts } from "./served-site.ts";

describe("visitors get", () => {
  test.each([
    { path: "index.html", directory: "", as: "index.html" },
    { path: "dist/a/b.css", directory: "dist", as: "a/b.css" },
    { path: "dist2/b.css", directory: "dist", as: null },
    { path: "dist", directory: "dist", as: null },
    { path: "a/.env", directory: ".", as: null },
    { path: ".git/config", directory: "", as: null },
    { path: ".well-known/security.txt", directory: "", as: ".well-known/security.txt" },
    { path: "svc.yml", directory: "", as: null },
    { path: "docs/svc.yml", directory: "", as: "docs/svc.yml" },
  ])("of $path, with $directory served: $as", ({ path, directory, as }) => {
    expect(servedAs(path, directory)).toBe(as);
  });
});

describe("a site is not doubted", () => {
  test.each([
    ["plain files", ["index.html", "style.css", "about/index.html", "app.js"]],
    ["a build of Vite", ["index.html", "assets/index-1.js", "assets/index-1.js.map", "favicon.svg"]],
    ["a video in pieces", ["index.html", "video/part-1.ts", "video/part-2.ts"]],
    ["examples to take home", ["index.html", "_downloads/plot.py", "lessons/server.js", "samples/package.json"]],
    ["scripts that the browser translates", ["index.html", "app.jsx"]],
    ["slides", ["index.html", "talk.key"]],
  ])("%s", (_, paths) => {
    expect(siteDoubts(paths)).toEqual([]);
  });
});

describe("a site is doubted", () => {
  test.each([
    { when: "it has no first page", paths: ["app.js"], says: [/^There is no index\.html .*in build\.output\.$/] },
    {
      when: "the first page lies deeper",
      paths: ["x/y/index.html", "docs/index.html", "de/index.html"],
      says: [/^There is no index\.html .*There is one in de: name that directory in build\.output\.$/],
    },
    { when: "the first page has another case", paths: ["Index.html"], says: [/^There is no index\.html/] },
    {
      when: "it is a project",
      paths: ["index.html", "package.json", "package-lock.json", "tsconfig.json", "yarn.lock"],
      says: [/^package\.json, package-lock\.json, tsconfig\.json and 1 more are served: .*build\.command/],
    },
    { when: "one file tells", paths: ["index.html", "Dockerfile"], says: [/^Dockerfile is served: /] },
    {
      when: "it has sources",
      paths: ["index.html", "src/main.ts", "src/app.jsx", "pages/a.vue"],
      says: [/^src\/main\.ts, src\/app\.jsx and pages\/a\.vue are served, which browsers cannot run/],
    },
    { when: "it is a server of PHP", paths: ["index.html", "admin/login.php"], says: [/^admin\/login\.php .*ssr\.$/] },
    { when: "it is a server of Node", paths: ["index.html", "server.mjs"], says: [/^server\.mjs .*app\.type: ssr\.$/] },
    { when: "it is a server of Python", paths: ["index.html", "manage.py"], says: [/^manage\.py .*app\.type: ssr\.$/] },
    ...[
      "id_rsa",
      "keys/ID_ED25519",
      "cert/server.pem",
      "a.p12",
      "prod.env",
      "privkey.key",
      "service-account-1.json",
    ].map((path) => ({
      when: `it has ${path}`,
      paths: ["index.html", path],
      says: [/ may hold secrets, .* it elsewhere/],
    })),
    {
      when: "all at once",
      paths: ["package.json", "src/a.tsx", "server.js", "id_rsa", "deploy.pem"],
      says: [
        /^There is no/,
        /^id_rsa and deploy\.pem may hold/,
        /^package\.json is/,
        /^src\/a\.tsx is/,
        /^server\.js /,
      ],
    },
  ])("when $when", ({ paths, says }) => {
    const doubts = siteDoubts(paths);
    expect(doubts).toEqual(says.map((pattern) => expect.stringMatching(pattern)));
  });

  test("in few words, however much there is", () => {
    const long = "ü".repeat(120);
    const paths = Array.from({ length: 1_000 }, (_, at) => `${long}/${at}/index.html`);
    const doubts = siteDoubts([...paths, ...paths.map((path) => path.replace("index.html", "a.pem"))]);
    expect(doubts).toHaveLength(2);
    for (const doubt of doubts) expect(Buffer.byteLength(doubt)).toBeLessThan(600);
  });
});
