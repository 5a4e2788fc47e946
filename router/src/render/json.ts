// @pure
/** Caddy's configuration is plain JSON. It is built as values, never as text. */
type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export interface JsonObject {
  [key: string]: Json;
}

/** One entry of a Caddy route list. Matchers inside one set are joined by "and", in no particular order. */
// biome-ignore lint/style/useConsistentTypeDefinitions: it is JSON, and an interface has no index signature
export type CaddyRoute = {
  group?: string;
  match?: JsonObject[];
  handle: JsonObject[];
  terminal?: boolean;
};

export const subroute = (routes: CaddyRoute[], errors?: CaddyRoute[]): JsonObject => ({
  handler: "subroute",
  routes,
  ...(errors && { errors: { routes: errors } }),
});

export const setVars = (values: Record<string, string>): JsonObject => ({ handler: "vars", ...values });

/** No line in the access log, so that it does not count; Caddy has changed the name. */
export const unlogged: JsonObject = { handler: "vars", skip_log: true, log_skip: true };

/** Sets response headers at once, so that a later handler still may. */
export const responseHeaders = (set: Record<string, string>): JsonObject => ({
  handler: "headers",
  response: { set: lists(set) },
});

export const lists = (values: Record<string, string>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, [value]]));

/** Matches when `value` (with placeholders, or the name of a variable) is one of `options`. */
export const equals = (value: string, ...options: string[]): JsonObject => ({ vars: { [value]: options } });

/** Matches `value` (with placeholders) and, with `name`, leaves the groups in `{http.regexp.<name>.<n>}`. */
export const matches = (value: string, pattern: string, name?: string): JsonObject => ({
  vars_regexp: { [value]: { ...(name !== undefined && { name }), pattern } },
});

export const not = (...sets: JsonObject[]): JsonObject => ({ not: sets });

/** Matches everything. */
export const always: JsonObject = { path: ["*"] };
/** Matches nothing. */
export const never: JsonObject = not(always);

/**
 * Matches when both do, the first before the second: of matchers in one set Caddy tries any first, and one may be much
 * dearer, or name what only the other has held to a pattern.
 */
export const inOrder = (first: JsonObject, second: JsonObject): JsonObject => not(not(first), not(second));
