import { z } from "zod";
import { limits } from "../limits.ts";
import { utf8Length } from "../text.ts";
import { channel, success } from "./envelope.ts";

/** Names that the platform sets itself. */
const reservedPrefix = "SVC_";

/** Why `key` cannot name a variable, or null. */
export function envKeyProblem(key: string): string | null {
  if (key.length > limits.envKeyLengthMax) return `A variable name has at most ${limits.envKeyLengthMax} characters.`;
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(key))
    return `"${key}" is not a variable name: letters, digits and underscores, not starting with a digit.`;
  // Objects and protobuf maps lose it on the way.
  if (key === "__proto__") return "A variable cannot be named __proto__.";
  if (key.startsWith(reservedPrefix)) return `Names that start with ${reservedPrefix} are the platform's.`;
  return null;
}

/** Why `value` cannot be a variable's value, or null. */
export function envValueProblem(value: string): string | null {
  if (value.includes("\0")) return "A value has no NUL character.";
  if (!value.isWellFormed()) return "A value is not valid text.";
  if (utf8Length(value) > limits.envValueBytesMax) return `A value has at most ${limits.envValueBytesMax / 1024} KiB.`;
  return null;
}

/**
 * Which layer of the environment is meant: the variables that go over the project's own in deployments of `channel`,
 * or, without it, the project's own.
 */
export const envQuery = z.strictObject({ channel: channel.exactOptional() });

/** The whole environment: what it does not name is removed. How many keys a plan allows is checked apart. */
export const replaceEnvInput = z.strictObject({
  vars: z.record(z.string(), z.string()).check((context) => {
    const entries = Object.entries(context.value);
    const add = (message: string, key?: string): void => {
      context.issues.push({ code: "custom", message, input: key, ...(key === undefined ? {} : { path: [key] }) });
    };
    let bytes = 0;
    for (const [key, value] of entries) {
      bytes += utf8Length(key) + utf8Length(value);
      const problem = envKeyProblem(key) ?? envValueProblem(value);
      if (problem !== null) add(problem, key.slice(0, limits.envKeyLengthMax));
    }
    if (bytes > limits.envTotalBytesMax) add(`has more than ${limits.envTotalBytesMax / 1024} KiB in all`);
  }),
});
export type ReplaceEnvInput = z.output<typeof replaceEnvInput>;

export const envReply = success({ vars: z.record(z.string(), z.string()) });
export type EnvReply = z.output<typeof envReply>;

/** Names only, sorted. */
export const replaceEnvReply = success({ keys: z.array(z.string()) });
export type ReplaceEnvReply = z.output<typeof replaceEnvReply>;
