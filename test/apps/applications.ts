/** Where a page or an asset is, and what a visitor gets there. */
export interface Page {
  path: string;
  /** The address is what this finds in the page at `path`: bundlers put a digest into names. */
  link?: RegExp;
  /** 200 unless it says otherwise. */
  status?: number;
  type: string;
  /** Parts of the text; `{url}` stands for the address of the site. */
  has?: readonly string[];
}

/** An application of the suite: the directory of its name beside this file. */
export interface Application {
  name: string;
  type: "static" | "ssr";
  /** The file that says "first edition", and where visitors read it. */
  edition: { file: string; page: Pick<Page, "path" | "link"> };
  /** The step that installs packages, as the build log has it; null when nothing is installed. */
  installs: string | null;
  pages: readonly Page[];
  /** Of a static site: something of which the second deploy changes nothing. */
  unchanged?: string;
  /** Paths in the container that only the build needs. */
  leftBehind?: readonly string[];
}

const html = "text/html";
const script = "text/javascript";
const style = "text/css";
const server = "port 3000, at {url}";

export const applications: readonly Application[] = [
  {
    name: "static-plain",
    type: "static",
    edition: { file: "index.html", page: { path: "/" } },
    installs: null,
    pages: [
      { path: "/", type: html, has: ["<h1>Cabin rules</h1>"] },
      { path: "/kitchen/stove", type: html, has: ["Birch first"] },
      { path: "/style.css", type: style },
      { path: "/no/such/page", status: 404, type: html, has: ["Lost in the woods"] },
      { path: "/svc.yml", status: 404, type: html },
    ],
  },
  {
    name: "vite-react",
    type: "static",
    unchanged: "/robots.txt",
    edition: { file: "src/app.jsx", page: { path: "/", link: /src="(\/assets\/[^"]+\.js)"/ } },
    installs: "npm ci",
    pages: [
      { path: "/", type: html, has: ["<title>Tide tables</title>"] },
      { path: "/", link: /src="(\/assets\/[^"]+\.js)"/, type: script, has: ["Kelder Sound"] },
      { path: "/", link: /href="(\/assets\/[^"]+\.css)"/, type: style },
      { path: "/robots.txt", type: "text/plain" },
      { path: "/harbours/kelder-sound", type: html, has: ["<title>Tide tables</title>"] },
    ],
  },
  {
    name: "astro",
    type: "static",
    unchanged: "/species.json",
    edition: { file: "src/pages/index.astro", page: { path: "/" } },
    installs: "npm ci",
    pages: [
      { path: "/", type: html, has: ["Sunburst lichen"] },
      { path: "/", link: /href="(\/_astro\/[^"]+\.css)"/, type: style },
      { path: "/about", type: html, has: ["with a hand lens"] },
      { path: "/species/oakmoss", type: html, has: ["Flat antlers"] },
      { path: "/species.json", type: "application/json", has: ['"map-lichen"'] },
      { path: "/species/moss", status: 404, type: html, has: ["Bare rock"] },
    ],
  },
  {
    name: "express",
    type: "ssr",
    edition: { file: "server.js", page: { path: "/" } },
    installs: "npm ci",
    pages: [
      { path: "/", type: html, has: [server, "production", "over http"] },
      { path: "/hours/3", type: html, has: ["dong dong dong"] },
      { path: "/style.css", type: style },
      { path: "/hours/13", status: 404, type: html, has: ["No bell rings"] },
    ],
  },
  {
    name: "next-standalone",
    type: "ssr",
    edition: { file: "app/page.jsx", page: { path: "/" } },
    installs: "npm ci",
    pages: [
      { path: "/", type: html, has: ["Upper Mill", server] },
      { path: "/", link: /src="(\/_next\/static\/[^"]+\.js)"/, type: "application/javascript" },
      { path: "/", link: /href="(\/_next\/static\/[^"]+\.css)"/, type: style },
      { path: "/moon.svg", type: "image/svg+xml" },
      { path: "/lines/N7", type: html, has: ["Harbour – Observatory"] },
      { path: "/lines/N9", status: 404, type: html, has: ["No bus goes there"] },
    ],
    leftBehind: ["/app/app", "/app/next.config.mjs", "/app/node_modules/.package-lock.json"],
  },
  {
    name: "sveltekit",
    type: "ssr",
    edition: { file: "src/routes/+page.server.js", page: { path: "/" } },
    installs: "npm ci",
    pages: [
      { path: "/", type: html, has: ["Seeded rye", server, "asked for at {url}"] },
      { path: "/", link: /href="\.(\/_app\/immutable\/[^"]+\.js)"/, type: script },
      { path: "/", link: /href="\.(\/_app\/immutable\/[^"]+\.css)"/, type: style },
      { path: "/loaves/rye", type: html, has: ["better on the third day"] },
      { path: "/loaves/brick", status: 404, type: html, has: ["No such loaf was baked"] },
    ],
    leftBehind: ["/app/node_modules/vite"],
  },
  {
    name: "react-router",
    type: "ssr",
    edition: { file: "app/routes/home.jsx", page: { path: "/" } },
    installs: "npm ci",
    pages: [
      { path: "/", type: html, has: ["corrie", server] },
      { path: "/", link: /href="(\/assets\/[^"]+\.js)"/, type: "javascript" },
      { path: "/", link: /href="(\/assets\/[^"]+\.css)"/, type: style },
      { path: "/islands/brine", type: html, has: ["On market days only"] },
      { path: "/islands/ash", status: 404, type: html, has: ["No ferry lands there"] },
    ],
    leftBehind: ["/app/node_modules/vite"],
  },
  {
    name: "nuxt",
    type: "ssr",
    edition: { file: "app/pages/index.vue", page: { path: "/" } },
    installs: "npm ci",
    pages: [
      { path: "/", type: html, has: ["14 knots over Long Strand", server] },
      { path: "/", link: /src="(\/_nuxt\/[^"]+\.js)"/, type: script },
      { path: "/api/wind", type: "application/json", has: ['"knots"'] },
      { path: "/kites/delta", type: html, has: ["a breath of wind"] },
      { path: "/kites/brick", status: 404, type: html, has: ["No such kite"] },
    ],
  },
  {
    name: "pnpm-monorepo",
    type: "ssr",
    edition: { file: "apps/stall/src/server.mts", page: { path: "/" } },
    installs: "pnpm install --frozen-lockfile",
    pages: [
      { path: "/", type: html, has: ["medlar", server] },
      { path: "/fruit/quince", type: html, has: ["3.40 a kilogram, keeps 14 days"] },
      { path: "/fruit/plum", status: 404, type: html, has: ["Not sold here"] },
    ],
    leftBehind: ["/app/apps/stall/node_modules/esbuild", "/app/libraries/prices/node_modules/esbuild"],
  },
  {
    name: "yarn-hono",
    type: "ssr",
    edition: { file: "src/server.js", page: { path: "/" } },
    installs: "yarn install --frozen-lockfile",
    pages: [
      { path: "/", type: html, has: [server] },
      { path: "/finds/parasol", type: html, has: ["stems like snakeskin"] },
      { path: "/finds/boot", status: 404, type: html, has: ["Nothing but leaves"] },
    ],
    leftBehind: ["/app/node_modules/esbuild"],
  },
  {
    name: "yarn-berry",
    type: "ssr",
    edition: { file: "server.js", page: { path: "/" } },
    installs: "yarn install --immutable",
    pages: [
      { path: "/", type: html, has: [server] },
      { path: "/openings/bird", type: html, has: ["1. f4"] },
      { path: "/openings/fool", status: 404, type: html, has: ["An illegal move"] },
    ],
  },
  {
    name: "bun",
    type: "ssr",
    edition: { file: "server.js", page: { path: "/" } },
    installs: "bun install --frozen-lockfile",
    pages: [
      { path: "/", type: html, has: [server, "bun 1."] },
      { path: "/cards/dunes", type: html, has: ["one lost hat"] },
      { path: "/cards/none", status: 404, type: html, has: ["Sold out"] },
    ],
  },
  {
    name: "dockerfile",
    type: "ssr",
    edition: { file: "server.mjs", page: { path: "/" } },
    installs: null,
    pages: [
      { path: "/", type: html, has: ["port 8080, at {url}"] },
      { path: "/constellations/lyra", type: html, has: ["lyra: 2 bright stars"] },
      { path: "/constellations/orion", status: 404, type: html, has: ["Dark sky"] },
    ],
    leftBehind: ["/build/stars.json"],
  },
];
