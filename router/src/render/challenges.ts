import { challengePath } from "../certificates/names.ts";
import { hostPattern } from "../names.ts";
import { type CaddyRoute, matches, responseHeaders, subroute } from "./json.ts";

/**
 * Before every other route: what a CA asks for is answered whether or not there is a site, a password, a redirect or an app
 * that would take the request for its own. Without a file for this host and token the request goes on as if this were
 * not here.
 */
export const challengeRoute = (challengesDir: string): CaddyRoute => ({
  match: [{ method: ["GET", "HEAD"], path: [`${challengePath}*`] }],
  handle: [
    subroute([
      {
        match: [
          {
            // Neither can hold a separator, or what a lookup takes for a pattern.
            ...matches("{http.request.host}", hostPattern),
            path_regexp: {
              name: "challenge",
              pattern: `^${challengePath.replace(".", "\\.")}([A-Za-z0-9_-]{16,128})$`,
            },
          },
        ],
        handle: [
          subroute([
            {
              match: [{ file: { root: challengesDir, try_files: ["/{http.request.host}/{http.regexp.challenge.1}"] } }],
              handle: [
                // Nobody's visit.
                { handler: "vars", skip_log: true, log_skip: true },
                responseHeaders({ "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store" }),
                { handler: "rewrite", uri: "{http.matchers.file.relative}" },
                { handler: "file_server", root: challengesDir },
              ],
              terminal: true,
            },
          ]),
        ],
      },
    ]),
  ],
});
