import type { CallToolResult } from "@modelcontextprotocol/server";
import { toCliError } from "../errors.ts";
import { scrub } from "../redact.ts";
import { cleanResult } from "./clean.ts";
import { fit } from "./fit.ts";

/** What a tool gave, for the client: as fields, and as a text for those that know no fields. */
export function toResult(payload: object, secrets: ReadonlySet<string>): CallToolResult {
  const clean = fit(cleanResult(payload, secrets));
  return { content: [{ type: "text", text: JSON.stringify(clean) }], structuredContent: { ...clean } };
}

/** Codes whose message quotes what an app, a build or a database said. */
const quoting: readonly string[] = ["DEPLOY_FAILED", "QUERY_ERROR"];

/** A failure, with the code of the command line, and what helps. `own` are secrets that came with the call, of which words of ours may be one. */
export function errorResult(
  thrown: unknown,
  secrets: ReadonlySet<string>,
  own: ReadonlySet<string> = new Set(),
): CallToolResult {
  const { code, hint, server, message: said } = toCliError(thrown);
  const message = scrub(said, own);
  const quotes = quoting.includes(code) || quoting.includes(server?.code ?? "");
  const error = {
    code,
    ...(server?.code && { serverCode: server.code }),
    message: quotes ? "It failed; what was said is in untrusted.message" : message,
    ...(hint !== undefined && { hint }),
  };
  const payload = { error, ...(quotes && { untrusted: { message } }) };
  return { content: [{ type: "text", text: JSON.stringify(fit(cleanResult(payload, secrets))) }], isError: true };
}
