import { stat } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { decide, type RuleDecision, ruleFiles } from "@svc/proto/site-rules";
import { isFileError } from "@svc/runtime/durable-file";
import { predecessorsKept } from "../bundles/predecessor-rules.ts";
import type { Log } from "../log.ts";
import { isBundleName, isHost, predecessorsDirName } from "../names.ts";
import { fileNamesOf } from "./file-names.ts";
import type { KeptRules } from "./kept-rules.ts";

/** Answers Caddy, which asks about a request for a site with rules. */
export type AnswerByRules = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * The request is the visitor's, with the host in `X-Svc-Host` and the bundle in `X-Svc-Bundle`. A redirect is answered as the
 * visitor gets it; with 204 Caddy serves a file, that of
 * `X-Svc-Path` if there is one, as what is shown where nothing is with `X-Svc-Missing`, and with the headers of the answer.
 */
export function createAnswerByRules(deps: {
  rules: KeptRules;
  bundlesDir: string;
  tableDir: string;
  log: Log;
}): AnswerByRules {
  const { rules, bundlesDir, tableDir, log } = deps;

  async function decisionOn({ url = "/", headers }: IncomingMessage): Promise<RuleDecision> {
    const bundle = String(headers["x-svc-bundle"]);
    const host = String(headers["x-svc-host"]);
    const at = url.indexOf("?");
    const path = at < 0 ? url : url.slice(0, at);
    const names = fileNamesOf(path);
    const [name = ""] = names;
    if (ruleFiles.some((file) => file === name))
      return { do: "serve", path: "/404.html", isMissing: true, headers: [] };
    if (!isBundleName(bundle)) throw new Error("asked about what is no bundle");
    const hasFile =
      (await hasOne(join(bundlesDir, bundle), names)) || (await isOfPredecessor(host.replace(/:\d+$/, ""), name));
    return decide(await rules.of(bundle), { host, path, query: at < 0 ? "" : url.slice(at), hasFile });
  }

  async function isOfPredecessor(host: string, name: string): Promise<boolean> {
    if (!isHost(host) || name === "") return false;
    const dirs = Array.from({ length: predecessorsKept }, (_, index) => `${index + 1}`);
    for (const nth of dirs) if (await hasOne(join(tableDir, predecessorsDirName, host, nth), [name])) return true;
    return false;
  }

  return (request, response) => {
    decisionOn(request).then(
      (decision) => send(response, decision),
      (err) => {
        log.error({ host: request.headers["x-svc-host"], err }, "a request could not be decided by its site's rules");
        response.writeHead(500).end();
      },
    );
  };
}

function send(response: ServerResponse, decision: RuleDecision): void {
  response.sendDate = false;
  if (decision.do === "redirect") {
    response.writeHead(decision.status, {
      Location: decision.location,
      "Cache-Control": "no-cache",
      "Content-Length": 0,
    });
  } else {
    for (const { name, value } of decision.headers) response.appendHeader(name, value);
    // Caddy would take a dollar sign for a group of its pattern.
    if (decision.path !== null) response.setHeader("X-Svc-Path", decision.path.replaceAll("$", "%24"));
    if (decision.isMissing) response.setHeader("X-Svc-Missing", "yes");
    response.writeHead(204);
  }
  response.end();
}

async function hasOne(dir: string, names: readonly string[]): Promise<boolean> {
  for (const name of names) {
    try {
      if ((await stat(join(dir, name))).isFile()) return true;
    } catch (cause) {
      if (!isFileError(cause, "ENOENT", "ENOTDIR", "ENAMETOOLONG", "ELOOP")) throw cause;
    }
  }
  return false;
}
