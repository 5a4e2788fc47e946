import { envKeyProblem, envValueProblem, limits, parseDotenv, utf8Length } from "@svc/proto";

/** A file of `env.files` as it came with the source. */
export interface EnvFile {
  path: string;
  bytes: Uint8Array;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * The variables of the files, a later file's over an earlier one's, under the rules of the project's own. What is
 * wrong names file and line and never repeats what stands there: it may be a part of a secret.
 */
export function readFileEnv(files: readonly EnvFile[]): { vars: Record<string, string> } | { problem: string } {
  const vars = new Map<string, string>();
  for (const { path, bytes } of files) {
    const text = textOf(bytes);
    if (text === null) return { problem: `${path} is not text in UTF-8` };
    const found = parseDotenv(text);
    if ("badLines" in found) return { problem: `${path} has no NAME=value in line ${found.badLines[0]}` };
    for (const { name, value, line } of found.variables) {
      const problem = variableProblem(name, value);
      if (problem !== null) return { problem: `${path}, line ${line}: ${problem}` };
      vars.set(name, value);
    }
  }
  const sizeBytes = [...vars].reduce((sum, [name, value]) => sum + utf8Length(name) + utf8Length(value), 0);
  if (sizeBytes > limits.envTotalBytesMax)
    return { problem: `the files of env.files have more than ${limits.envTotalBytesMax / 1024} KiB in all` };
  return { vars: Object.fromEntries(vars) };
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

function variableProblem(name: string, value: string): string | null {
  if (envKeyProblem(name) !== null)
    return "the name is not one that a variable can have (letters, digits and underscores, not SVC_ at its beginning)";
  return envValueProblem(value);
}
