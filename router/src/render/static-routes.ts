// @pure
import { cacheRoutes, typeRoutes } from "./file-headers.ts";
import { type CaddyRoute, equals, type JsonObject, not, responseHeaders, setVars, subroute } from "./json.ts";
import { showPage } from "./page-routes.ts";

const path = "{http.request.uri.path}";
const withoutSlash = "{http.regexp.slash.1}";
const found = "{http.matchers.file.relative}";
const outcome = "{http.vars.svc_file}";

/**
 * A static site from its unpacked bundle. A path is served by the file of that name or by `<path>.html`; with a trailing
 * slash by the index in that directory. Where only the other one of the two exists it moves there: links of a page
 * are relative to its directory. What exists under no such name is index.html where `fallsBack` matches, else
 * 404.html, else our page.
 *
 * Bundles hold no dot files (they are not unpacked), and directories are never listed.
 *
 * @param root directory of the bundle, with placeholders
 */
export const staticHandler = (root: string, fallsBack: JsonObject): JsonObject =>
  subroute([
    { match: [{ method: ["OPTIONS"] }], handle: [allow, { handler: "static_response", status_code: "204" }] },
    { match: [not({ method: ["GET", "HEAD"] })], handle: [allow, ...showPage("method")] },
    { handle: [withoutDates] },
    ...chooseFile(root, fallsBack),
    ...typeRoutes,
    {
      match: [equals(outcome, "found")],
      handle: [subroute(cacheRoutes(path)), fileServer(root)],
    },
    { match: [equals(outcome, "404")], handle: [unconditional, { ...fileServer(root), status_code: "404" }] },
    { handle: showPage("missing") },
  ]);

const allow = responseHeaders({ Allow: "GET, HEAD, OPTIONS" });

/** Rewrites the path to the file that is to be served, and says in `svc_file` what it is. */
function chooseFile(root: string, fallsBack: JsonObject): CaddyRoute[] {
  const exists = (...names: string[]): JsonObject => ({ file: { root, try_files: names } });
  // Of the routes of a group only the first that matches runs.
  const choose = (match: JsonObject, as: string): CaddyRoute => ({
    group: "file",
    match: [match],
    handle: [setVars({ svc_file: as }), { handler: "rewrite", uri: found }],
  });
  return [
    {
      match: [{ path_regexp: { name: "slash", pattern: "^(.*)/$" } }],
      handle: [
        subroute([
          choose(exists(`${withoutSlash}/index.html`), "found"),
          { group: "file", match: [exists(withoutSlash, `${withoutSlash}.html`)], handle: moveTo(dropSlash) },
        ]),
      ],
    },
    {
      match: [not(equals(outcome, "found", "404"))],
      handle: [
        subroute([
          // Not rewritten: a question mark in a name would begin the query.
          { group: "file", match: [exists(path)], handle: [setVars({ svc_file: "found" })] },
          choose(exists(`${path}.html`), "found"),
          { group: "file", match: [exists(`${path}/index.html`)], handle: moveTo(addSlash) },
          choose({ ...exists("/index.html"), ...fallsBack }, "found"),
          choose(exists("/404.html"), "404"),
        ]),
      ],
    },
  ];
}

const dropSlash: JsonObject = { strip_path_suffix: "/" };
/** Of the path as it was sent: a question mark in a name stays one. */
const addSlash: JsonObject = { path_regexp: [{ find: "$", replace: "/" }] };

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

/**
 * The modification time of an unpacked file stands for its content (Caddy makes the ETag from it) and is
 * no date, so nobody may see it as one or compare dates with it. Deferred: applied when the answer starts.
 */
const withoutDates: JsonObject = {
  handler: "headers",
  request: { delete: ["If-Modified-Since", "If-Unmodified-Since"] },
  response: { deferred: true, delete: ["Last-Modified"], set: { Vary: ["Accept-Encoding"] } },
};

/** A "not modified" or a part of it would be no answer to a path that does not exist. */
const unconditional: JsonObject = {
  handler: "headers",
  request: { delete: ["If-None-Match", "If-Match", "If-Range", "Range"] },
  response: { deferred: true, delete: ["Etag"], set: { "Cache-Control": ["no-cache"] } },
};

const fileServer = (root: string): JsonObject => ({
  handler: "file_server",
  root,
  canonical_uris: false,
  precompressed: { br: {}, gzip: {} },
  precompressed_order: ["br", "gzip"],
});
