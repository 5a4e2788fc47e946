import { limits } from "../limits.ts";

/** A port that something names, and what that is. */
export interface NamedPort {
  port: number;
  why: string;
}

const portNumber = /^\d{2,5}$/;

function named(text: string | undefined, why: string): NamedPort | null {
  const port = portNumber.test(text ?? "") ? Number(text) : 0;
  return port >= limits.portMin && port <= limits.portMax ? { port, why } : null;
}

/** The port of the last stage's first EXPOSE (or of `ENV PORT`), whose variables have the values that the file gives them. */
export function portOfDockerfile(text: string): NamedPort | null {
  const values = new Map<string, string>();
  let exposed: string | undefined;
  for (const line of text.replaceAll(/\\\r?\n/g, " ").split("\n")) {
    const [, word = "", rest = ""] = /^(\w+)\s+(.*)$/.exec(line.trim()) ?? [];
    const instruction = word.toUpperCase();
    if (instruction === "FROM") exposed = undefined;
    if (instruction === "ENV" || instruction === "ARG") {
      for (const [, name, value] of rest.matchAll(/\b(\w+)(?:=|\s+)["']?([^\s"']+)["']?/g)) {
        if (name !== undefined && value !== undefined) values.set(name, value);
      }
    }
    if (instruction === "EXPOSE") exposed ??= rest.split(/\s+/)[0];
  }
  const [, variable, otherwise] = /^\$\{?(\w+)(?::-(\d+))?\}?/.exec(exposed ?? "") ?? [];
  const value = variable === undefined ? exposed : (values.get(variable) ?? otherwise);
  return (
    named(value?.replace(/\/tcp$/, ""), `EXPOSE ${exposed} of the Dockerfile`) ??
    named(values.get("PORT"), "PORT in the Dockerfile")
  );
}

/** The port that a command line names. */
export function portOfCommand(command: string): NamedPort | null {
  const [, flag, variable] = /(?:^|\s)(?:(?:-p|--port)[ =](\d+)|PORT=(\d+))(?=\s|$)/.exec(command) ?? [];
  return named(flag ?? variable, "the start command");
}

/** The port that a server's source has written in it; null where it reads a variable, or says nothing that is understood. */
export function portOfSource(text: string, path: string): NamedPort | null {
  if (/\benv\b[.[\]"'`\w]{0,40}PORT\b/i.test(text)) return null;
  const found =
    /\blisten\(\s*(\d+)/.exec(text) ??
    /\bport\s*:\s*(\d+)/i.exec(text) ??
    /\bport\s*(?::\s*number\s*)?=\s*(\d+)/i.exec(text);
  return named(found?.[1], `it is written in ${path}`);
}
