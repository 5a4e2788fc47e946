import { z } from "zod";
import { issueText } from "../issue-text.ts";
import { knownKeys, unknownKey } from "../known-keys.ts";
import { channels } from "../lifecycle.ts";
import { clip } from "../text.ts";

/** A key that nobody knows may be any text. */
const shownKeyBytes = 60;

/** Names the platform's version in replies to whoever is let in. */
export const versionHeader = "svc-version";

/** Identifier of a project, deployment, key or run. Capitals are taken and become what the database writes. */
export const id = z.guid().toLowerCase();

/** ISO 8601 in UTC. */
export const timestamp = z.iso.datetime();

export const channel = z.enum(channels);

/** Bytes, counts, milliseconds. */
export const count = z.int().min(0);

/**
 * An object in a reply. Replies may gain fields at any time, so unknown ones pass through; the type names the
 * known ones only, so that a server that misspells one does not compile.
 */
export const replyObject = <Shape extends z.core.$ZodLooseShape>(shape: Shape): z.ZodObject<Shape, z.core.$strip> =>
  z.looseObject(shape) as unknown as z.ZodObject<Shape, z.core.$strip>;

/** A success: `ok: true` with the payload beside it. */
export const success = <Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
): z.ZodObject<{ ok: z.ZodLiteral<true> } & Shape, z.core.$strip> => replyObject({ ok: z.literal(true), ...shape });

export const errorReply = replyObject({
  ok: z.literal(false),
  error: replyObject({ code: z.string(), message: z.string() }),
});
export type ErrorReply = z.output<typeof errorReply>;

/** Path parameters of everything below one project or one deployment. */
export const idParams = z.strictObject({ id });

/** An action that was queued. */
export const queuedReply = success({ queued: z.literal(true) });

/**
 * The catalogue's code for a failed schema: the one that an issue names in `params.code`, else VALIDATION.
 */
export function validationCode(issues: readonly z.core.$ZodIssue[]): "VALIDATION" | "OCI_REFERENCE_INVALID" {
  const marked = issues.some((issue) => issue.code === "custom" && issue.params?.["code"] === "OCI_REFERENCE_INVALID");
  return marked ? "OCI_REFERENCE_INVALID" : "VALIDATION";
}

/** Said of a change that changes nothing. */
export const nothingSent = "Send at least one field.";

/**
 * One sentence for the first few issues of a failed schema, each with the place it is about. With the schema itself
 * an unknown key is answered with the nearest known one.
 */
export function validationMessage(issues: readonly z.core.$ZodIssue[], schema?: z.ZodType): string {
  const hasUnknownKeys = issues.some(({ code }) => code === "unrecognized_keys");
  return (
    issues
      // Who misspelt the only field did send one.
      .filter((issue) => !hasUnknownKeys || issue.message !== nothingSent)
      .slice(0, 5)
      .map((issue) => issueMessage(issue, schema))
      .join("; ")
  );
}

function issueMessage(issue: z.core.$ZodIssue, schema: z.ZodType | undefined): string {
  const at = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") {
    const keys = issue.keys.slice(0, 5).map((key) => clip(key, shownKeyBytes));
    if (schema === undefined) return `${at === "" ? "" : `${at}: `}unknown key ${keys.join(", ")}`;
    const known = knownKeys(schema, issue.path);
    return keys.map((key) => unknownKey(at === "" ? key : `${at}.${key}`, key, known)).join("; ");
  }
  const text = issueText(issue);
  if (at !== "") return `${at}: ${text}`;
  // What is said of the whole is a sentence already when a schema of ours says it.
  return text === issue.message ? text : `What was sent ${text}`;
}
