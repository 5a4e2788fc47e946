import { isAbsolute, join, resolve } from "node:path";
import type { Env } from "./environment.ts";
import { CliError } from "./errors.ts";
import { readTextFile, unreadableAs } from "./files.ts";

/** Where a key is to be found. Relative paths count from the folder of the config file, never from where svc runs. */
export type TokenRef =
  | { scheme: "literal"; value: string }
  | { scheme: "env"; name: string }
  | { scheme: "file"; path: string }
  | { scheme: "dotenv"; path: string; name: string };

/** `directory`: what relative paths count from. `home`: what `~` stands for. */
interface Places {
  env: Env;
  directory: string;
  home: string;
}

const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;
const tokenFileBytesMax = 64 * 1024;

/** Reads `literal:VALUE`, `env:NAME`, `file:PATH` or `dotenv:PATH:VAR`; null when it is none of them. */
export function parseTokenRef(text: string): TokenRef | null {
  const colon = text.indexOf(":");
  const scheme = text.slice(0, Math.max(0, colon));
  const rest = text.slice(colon + 1);
  if (rest === "") return null;
  if (scheme === "literal") return { scheme, value: rest };
  if (scheme === "env") return variableName.test(rest) ? { scheme, name: rest } : null;
  if (scheme === "file") return { scheme, path: rest };
  if (scheme !== "dotenv") return null;
  // The variable comes last, because a path may hold a colon itself.
  const last = rest.lastIndexOf(":");
  const name = rest.slice(last + 1);
  return last > 0 && variableName.test(name) ? { scheme, path: rest.slice(0, last), name } : null;
}

/** The key that `text` refers to. TOKEN_REF_INVALID when it is malformed, TOKEN_MISSING when nothing is there. */
export async function resolveTokenRef(text: string, options: Places): Promise<string> {
  const ref = parseTokenRef(text);
  if (ref === null)
    throw new CliError("TOKEN_REF_INVALID", "The tokenRef of the stored login is malformed", {
      hint: "Write literal:VALUE, env:NAME, file:PATH or dotenv:PATH:VAR, or run `svc login`",
    });
  const found = (await lookUp(ref, options))?.trim() ?? "";
  if (found === "")
    throw new CliError("TOKEN_MISSING", `There is no key in ${describe(ref)}`, { hint: "Run `svc login`" });
  if (!isKeyText(found))
    throw new CliError("TOKEN_MISSING", `What is in ${describe(ref)} is not a key`, { hint: "Run `svc login`" });
  return found;
}

/** Whether `text` can be a key at all: it travels in an HTTP header, so it is visible ASCII. */
export const isKeyText = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);

const describe = (ref: TokenRef): string => {
  if (ref.scheme === "literal") return "the stored login";
  if (ref.scheme === "env") return `the variable ${ref.name}`;
  return ref.scheme === "file" ? `the file ${ref.path}` : `${ref.name} in ${ref.path}`;
};

async function lookUp(ref: TokenRef, { env, directory, home }: Places): Promise<string | undefined> {
  if (ref.scheme === "literal") return ref.value;
  if (ref.scheme === "env") return env[ref.name];
  const path = locate(ref.path, directory, home);
  const content = (await readTextFile(path, tokenFileBytesMax).catch(unreadableAs("TOKEN_MISSING", path))) ?? "";
  if (ref.scheme === "file") return content;
  const { parse } = await import("dotenv");
  return parse(content)[ref.name];
}

function locate(path: string, directory: string, home: string): string {
  if (path.startsWith("~/")) return join(home, path.slice(2));
  return isAbsolute(path) ? path : resolve(directory, path);
}
