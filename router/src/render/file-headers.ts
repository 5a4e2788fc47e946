// @pure
import { type CaddyRoute, matches, responseHeaders, subroute } from "./json.ts";

const extension = "(?:\\.[a-z0-9]+){1,2}$";

/** Directories in which build tools put nothing but files named after their content. */
const contentNamed = ["^/(?:_astro|_next/static|_nuxt|_app/immutable)/"];
const buildDirectory = "^/(?:assets|static|build|chunks|js|css|media)/.*";

/**
 * Names that carry a hash of the content, each as patterns that must all match. Words and dates must not
 * pass: a file kept for a year under a name that comes again is worse than one asked for again. So a
 * hexadecimal hash needs a digit and a letter, one of eight base64 characters a capital that does not
 * begin it and something that is no letter.
 */
const hashedName = [
  [
    `${buildDirectory}[.-][0-9a-f]{8,64}${extension}`,
    `[0-9][0-9a-f]{0,63}${extension}`,
    `[a-f][0-9a-f]{0,63}${extension}`,
  ],
  [
    `${buildDirectory}[.-][A-Za-z0-9_-]{8}${extension}`,
    `[A-Z][A-Za-z0-9_-]{0,6}${extension}`,
    `[0-9_-][A-Za-z0-9_-]{0,7}${extension}`,
  ],
];

const immutableNames: readonly string[][] = [contentNamed, ...hashedName];

/** Whether the file at `path` can never change, as the routes below decide. */
export const isImmutable = (path: string): boolean =>
  immutableNames.some((patterns) => patterns.every((pattern) => new RegExp(pattern).test(path)));

const setImmutable = responseHeaders({ "Cache-Control": "public, max-age=31536000, immutable" });

/** Everything is asked for again (and mostly answered "not modified"), except what can never change. */
export const cacheRoutes = (path: string): CaddyRoute[] => [
  { handle: [responseHeaders({ "Cache-Control": "no-cache" })] },
  ...immutableNames.map((patterns) => {
    const [first, ...rest] = patterns.map((pattern): CaddyRoute["match"] => [matches(path, pattern)]).reverse();
    // Each pattern in a route of its own, because a matcher set cannot hold one kind of matcher twice.
    const innermost: CaddyRoute = { ...(first && { match: first }), handle: [setImmutable] };
    return rest.reduce<CaddyRoute>(
      (inner, match) => ({ ...(match && { match }), handle: [subroute([inner])] }),
      innermost,
    );
  }),
];

/** What Go does not know by itself; otherwise the type would depend on the files of the host. */
const types: Record<string, string> = {
  txt: "text/plain; charset=utf-8",
  md: "text/markdown; charset=utf-8",
  csv: "text/csv; charset=utf-8",
  ics: "text/calendar; charset=utf-8",
  vtt: "text/vtt; charset=utf-8",
  map: "application/json",
  jsonld: "application/ld+json",
  webmanifest: "application/manifest+json",
  rss: "application/rss+xml",
  atom: "application/atom+xml",
  ico: "image/x-icon",
  woff: "font/woff",
  woff2: "font/woff2",
  ttf: "font/ttf",
  otf: "font/otf",
  mp3: "audio/mpeg",
  m4a: "audio/mp4",
  ogg: "audio/ogg",
  wav: "audio/wav",
  mp4: "video/mp4",
  webm: "video/webm",
  mov: "video/quicktime",
  zip: "application/zip",
};

export const typeRoutes: CaddyRoute[] = [
  {
    match: [{ path: Object.keys(types).map((name) => `*.${name}`) }],
    handle: [
      subroute(
        Object.entries(types).map(([name, type]) => ({
          match: [{ path: [`*.${name}`] }],
          handle: [responseHeaders({ "Content-Type": type })],
        })),
      ),
    ],
  },
];
