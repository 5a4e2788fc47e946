import { predecessorsKept } from "../bundles/predecessor-rules.ts";
import { filesDirName, predecessorsDirName } from "../names.ts";
import { typeOfFile } from "./file-types.ts";
import { type CaddyRoute, equals, inOrder, type JsonObject, lists, not, responseHeaders, subroute } from "./json.ts";
import { showPage } from "./page-routes.ts";

/** A static site, with placeholders. */
export interface StaticSite {
  /** Directory of the bundle. */
  root: string;
  /** Directory of those of its files that never change; see `isImmutable`. */
  immutableRoot: string;
  /** Matches where unknown paths are index.html. */
  fallsBack: JsonObject;
}

const host = "{http.request.host}";
const path = "{http.request.uri.path}";
const withoutSlash = "{http.regexp.slash.1}";
const found = "{http.matchers.file.relative}";

const reads: JsonObject = { method: ["GET", "HEAD"] };
const endsInSlash = equals("{http.request.uri.path.file}", "");
const hasExtension = not(equals("{http.request.uri.path.file.ext}", ""));

/**
 * Files of open sites whose names say what is in them: what browsers ask for most. Found by a link of the host's, before
 * anything is known of the host. Whatever has no extension is not looked up, which pages of apps need not pay for.
 */
export const hashedFileRoute = (tableDir: string): CaddyRoute => {
  const root = `${tableDir}/${filesDirName}/${host}`;
  return {
    match: [{ ...reads, ...inOrder(hasExtension, exists(root, path)) }],
    handle: serve(root, immutably),
    terminal: true,
  };
};

/**
 * A static site from its unpacked bundle. A path is served by the file of that name or by `<path>.html`; with a trailing
 * slash by the index in that directory. Where only the other one of the two exists it moves there: links of a page
 * are relative to its directory. What never changes is also served by the bundles that this one replaced lately. What exists
 * under no such name is index.html where `fallsBack` matches, else the next 404.html upwards, else our page.
 *
 * Bundles hold no dot files (they are not unpacked), and directories are never listed.
 */
export const staticHandler = (site: StaticSite, tableDir: string): JsonObject => subroute(staticRoutes(site, tableDir));

/** The same as a list, which ends each request. */
export const staticRoutes = (site: StaticSite, tableDir: string): CaddyRoute[] => {
  const { root, immutableRoot } = site;
  return [
    { match: [not(reads)], handle: [subroute(otherMethods)] },
    {
      match: [inOrder(endsInSlash, exists(root, `${path}index.html`))],
      handle: [append("index.html"), ...serve(root, checked, false)],
      terminal: true,
    },
    {
      match: [inOrder(hasExtension, exists(immutableRoot, path))],
      handle: serve(immutableRoot, immutably),
      terminal: true,
    },
    {
      match: [inOrder(not(endsInSlash), exists(root, path))],
      // Not rewritten: a question mark in a name would begin the query.
      handle: serve(root, checked),
      terminal: true,
    },
    {
      match: [inOrder(not(endsInSlash), exists(root, `${path}.html`))],
      handle: [append(".html"), ...serve(root, checked, false)],
      terminal: true,
    },
    { handle: [subroute(elsewhere(site, tableDir))] },
  ];
};

const allow = responseHeaders({ Allow: "GET, HEAD, OPTIONS" });
const otherMethods: CaddyRoute[] = [
  { match: [{ method: ["OPTIONS"] }], handle: [allow, { handler: "static_response", status_code: "204" }] },
  { handle: [allow, ...showPage("method")] },
];

const exists = (root: string, ...names: string[]): JsonObject => ({ file: { root, try_files: names } });

/** For paths that no file has. */
function elsewhere({ root, fallsBack }: StaticSite, tableDir: string): CaddyRoute[] {
  const before = (nth: number) => `${tableDir}/${predecessorsDirName}/${host}/${nth}`;
  return [
    {
      match: [
        inOrder(
          { path_regexp: { name: "slash", pattern: "^(.*)/$" } },
          exists(root, withoutSlash, `${withoutSlash}.html`),
        ),
      ],
      handle: moveTo({ strip_path_suffix: "/" }),
      terminal: true,
    },
    {
      match: [inOrder(not(endsInSlash), exists(root, `${path}/index.html`))],
      handle: moveTo(append("/")),
      terminal: true,
    },
    ...Array.from(
      { length: predecessorsKept },
      (_, index): CaddyRoute => ({
        match: [inOrder(hasExtension, exists(before(index + 1), path))],
        handle: serve(before(index + 1), immutably),
        terminal: true,
      }),
    ),
    {
      match: [inOrder(fallsBack, exists(root, "/index.html"))],
      handle: [{ handler: "rewrite", uri: "/index.html" }, ...serve(root, checked, false)],
      terminal: true,
    },
    {
      match: [
        inOrder({ path_regexp: { name: "up", pattern: `^${"(/[^/]+)?".repeat(notFoundDepth)}` } }, nearest404(root)),
      ],
      handle: [{ handler: "rewrite", uri: found }, ...missingHandlers(root)],
      terminal: true,
    },
    { handle: showPage("missing") },
  ];
}

/** The file that the path names, as what is shown where nothing is. */
export const missingHandlers = (root: string): JsonObject[] => [
  unconditional,
  ...serve(root, checked, false, { status_code: "404" }),
];

/** Directories of a path below which its own 404.html is looked for; one below those gets the one of the last. */
const notFoundDepth = 5;

const nearest404 = (root: string): JsonObject => {
  const directories = Array.from({ length: notFoundDepth }, (_, index) => `{http.regexp.up.${index + 1}}`);
  const from = (depth: number) => `${directories.slice(0, depth).join("")}/404.html`;
  return exists(root, ...Array.from({ length: notFoundDepth + 1 }, (_, index) => from(notFoundDepth - index)));
};

/** To the end of the path as it was sent: a question mark in a name stays one. */
const append = (end: string): JsonObject => ({ handler: "rewrite", path_regexp: [{ find: "$", replace: end }] });

/** To the path after `change`, with its query. Absolute, because a path that begins with two slashes would name another host. */
const moveTo = (change: JsonObject): JsonObject[] => [
  { handler: "rewrite", ...change },
  {
    handler: "static_response",
    status_code: "308",
    headers: {
      Location: ["{http.request.scheme}://{http.request.hostport}{http.request.uri}"],
      "Cache-Control": ["no-cache"],
    },
  },
];

/** Asked for again, and mostly answered "not modified". */
const checked = "no-cache";
const immutably = "public, max-age=31536000, immutable";

/** The file that the path names. Of those whose name ends in .html, Caddy knows the type itself. */
const serve = (root: string, cacheControl: string, typed = true, more: JsonObject = {}): JsonObject[] => [
  headersOf(cacheControl),
  ...(typed ? [typeOfFile] : []),
  {
    handler: "file_server",
    root,
    canonical_uris: false,
    precompressed: { br: {}, gzip: {} },
    precompressed_order: ["br", "gzip"],
    ...more,
  },
];

/**
 * The modification time of an unpacked file stands for its content (Caddy makes the ETag from it) and is
 * no date, so nobody may see it as one or compare dates with it. Deferred: applied when the answer starts.
 */
const headersOf = (cacheControl: string): JsonObject => ({
  handler: "headers",
  request: { delete: ["If-Modified-Since", "If-Unmodified-Since"] },
  response: {
    deferred: true,
    delete: ["Last-Modified"],
    set: lists({ Vary: "Accept-Encoding", "Cache-Control": cacheControl }),
  },
});

/** A "not modified" or a part of it would be no answer to a path that does not exist. */
const unconditional: JsonObject = {
  handler: "headers",
  request: { delete: ["If-None-Match", "If-Match", "If-Range", "Range"] },
  response: { deferred: true, delete: ["Etag"] },
};
