import { challengePath } from "../certificates/names.ts";
import { hostPattern } from "../names.ts";
import { type CaddyRoute, matches, responseHeaders, subroute, unlogged } from "./json.ts";
import { showPage } from "./page-routes.ts";

/**
 * Before every other route, and to its end: what is below this path is between CAs and the platform. What a CA asks for is
 * answered whether or not there is a site, a password, a redirect or an app that would take the request for its own. What
 * is not known is 404 on every host: a site that could answer would get a certificate for a name of the platform, and keep
 * it when the name has become somebody else's.
 */
export const challengeRoute = (challengesDir: string): CaddyRoute => ({
  match: [{ path: [`${challengePath}*`] }],
  handle: [
    // Nobody's visit.
    unlogged,
    subroute([
      {
        match: [
          {
            method: ["GET", "HEAD"],
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
                responseHeaders({ "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store" }),
                { handler: "rewrite", uri: "{http.matchers.file.relative}" },
                { handler: "file_server", root: challengesDir },
              ],
              terminal: true,
            },
          ]),
        ],
      },
      { handle: showPage("missing") },
    ]),
  ],
  terminal: true,
});
