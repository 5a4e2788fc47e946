import { accessLogName } from "../names.ts";
import { saidSeparator } from "../traffic/line.ts";
import type { JsonObject } from "./json.ts";

/** Caddy's logger of requests. */
export const accessLogger = "http.log.access";

const megabytesPerFile = 8;
/** Files of the access log that Caddy keeps besides the one that it writes. */
const filesKept = 16;
/** What is in the files when Caddy begins to throw lines away that nobody has read. */
export const accessLogBytesMax = filesKept * megabytesPerFile * 1024 * 1024;

/**
 * A short line per request in files that the router reads and removes. While it is away the newest stay, within a
 * bound; a socket would lose them, fill Caddy's error output, and keep a Caddy that is started without the router from
 * starting.
 *
 * @param logsVisits whether lines say who asked and how, for analytics: that stays in memory until it is counted
 */
export const accessLogOf = (trafficDir: string, logsVisits: boolean): JsonObject => ({
  include: [accessLogger],
  writer: {
    output: "file",
    filename: `${trafficDir}/${accessLogName}`,
    roll_size_mb: megabytesPerFile,
    roll_keep: filesKept,
    roll_gzip: false,
  },
  encoder: {
    format: "filter",
    wrap: { format: "json", level_key: "", message_key: "", name_key: "" },
    // Cookies and tokens, and what follows the "?" of an address, are nobody's business here.
    fields: Object.fromEntries(
      [
        ...(logsVisits ? [] : ["remote_ip", "client_ip", "method"]),
        ...["remote_port", "proto", "uri", "headers", "tls", "transfer_encoding"],
      ]
        .map((name) => `request>${name}`)
        .concat("resp_headers")
        .map((name) => [name, { filter: "delete" }]),
    ),
  },
});

const header = (name: string): string => `{http.request.header.${name}}`;
const announced = header("Content-Length");
/** In the order in which `traffic/line.ts` reads them. */
const said = [
  announced,
  header("Sec-Fetch-Dest"),
  header("Sec-GPC"),
  header("DNT"),
  "{http.request.orig_uri}",
  header("User-Agent"),
  header("Referer"),
].join(saidSeparator);

/** A request as browsers send them: without the query of its address, and of the referrer only where that page is from. */
const usual =
  "^([0-9]{0,13}|[a-z]{0,12}|[01]?|[01]?|[^?#|]{0,180})(?:[?#][^|]*)?(|[^|]{0,220}|(?:https?://[^/?#]{0,50})?)(?:[/?#].*)?$";
/** Any other: of each part the beginning. */
const unusual = "^([0-9]{0,13})[^|]*|([a-z]{0,12})[^|]*|([01]?)[^|]*|([01]?)[^|]*|([^?#|]{0,80})[^|]*(|[^|]{0,100})";

/**
 * Puts what a request says of itself into its line of the log, in the place of a user, of which there are none: the length
 * that its body is said to have, and with `logsVisits` its address, browser and referrer. That is the one way to choose
 * headers for the log that all versions of Caddy know, and the only one that bounds them: a line must stay short, or
 * one visitor could push everybody's lines out of the files before they are read.
 *
 * The expressions are such that Go's engine takes them in one pass (`usual`), or by its second best way: fewer than 1,000 and
 * 500 steps.
 */
export const logSaid = (logsVisits: boolean): JsonObject => ({
  handler: "map",
  source: logsVisits ? said : announced,
  destinations: ["{http.auth.user.id}"],
  mappings: logsVisits
    ? [
        { input_regexp: separated(usual), outputs: ["$1$2"] },
        { input_regexp: separated(unusual), outputs: [separated("$1|$2|$3|$4|$5$6")] },
      ]
    : [{ input_regexp: "^([0-9]{1,13})$", outputs: ["$1"] }],
  defaults: [""],
});

/** With "|" in the place of the separator, which nobody could read. */
function separated(text: string): string {
  return text.replaceAll("|", saidSeparator);
}
