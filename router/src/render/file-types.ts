// @pure
import { equals, type JsonObject, responseHeaders, subroute } from "./json.ts";

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

const extension = "{http.request.uri.path.file.ext}";
const spellings = (name: string): string[] => [`.${name}`, `.${name.toUpperCase()}`];

/** Says of what type the file is that the path names. */
export const typeOfFile: JsonObject = subroute([
  {
    match: [equals(extension, ...Object.keys(types).flatMap(spellings))],
    handle: [
      subroute(
        Object.entries(types).map(([name, type]) => ({
          match: [equals(extension, ...spellings(name))],
          handle: [responseHeaders({ "Content-Type": type })],
        })),
      ),
    ],
  },
]);
