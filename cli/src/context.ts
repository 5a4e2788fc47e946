import { arch, platform } from "node:os";
import { stripControl } from "@svc/proto";
import { type Api, createApi } from "./api.ts";
import { type Credentials, resolveCredentials } from "./credentials.ts";
import type { Env } from "./environment.ts";
import type { Http } from "./http.ts";
import { locateManifest, type ManifestPlace } from "./manifest-file.ts";
import type { Input, Terminal } from "./terminal.ts";
import { version } from "./version.ts";

/** Options that every command takes. */
export type Globals = {
  /** Path of the manifest, from the working directory. */
  manifest: string;
  /** Whether somebody wrote that path; else it is the usual one. */
  manifestNamed: boolean;
  json: boolean;
  /** Destructive operations need no further confirmation. */
  yes: boolean;
  verbose: boolean;
  quiet: boolean;
  noColor: boolean;
};

/** What surrounds a run: facts of the process, and nothing that a command should keep. */
export type Surroundings = {
  env: Env;
  cwd: string;
  home: string;
  globals: Globals;
  terminal: Terminal;
  /** What is fed to the program; only for what is asked of it in words. */
  stdin: Input;
  /** Writes to stdout, for a result that comes bit by bit. */
  print(text: string): void;
  /** Aborted by the first Ctrl-C. */
  signal: AbortSignal;
};

/** What a command is given. */
export type Context = Omit<Surroundings, "print"> & {
  now(): Date;
  /** Said on stderr at once, and in the envelope's `warnings`. */
  warn(text: string): void;
  /** Prints lines of a result that comes bit by bit, to stdout. Never with --json. */
  stream(lines: readonly string[]): void;
  /** What to tell a person who presses Ctrl-C from here on; null: nothing was begun. */
  onInterrupt(advice: string | null): void;
  http(): Promise<Http>;
  credentials(): Promise<Credentials>;
  /** The API, as the person who is logged in. CLOUD_NOT_LOGGED_IN when nobody is. */
  api(): Promise<Api>;
  /** The API at `apiUrl` with `headers` that say who calls. */
  apiAt(apiUrl: string, headers: Readonly<Record<string, string>>): Promise<Api>;
  manifestPlace(): Promise<ManifestPlace>;
};

/** A context, and what `main` reads back from it at the end. */
export type Run = {
  context: Context;
  warnings: string[];
  interruptAdvice(): string | null;
  /** Version of the platform that answered; null when none said. */
  platformVersion(): string | null;
  close(): Promise<void>;
};

export const userAgent = `svc-cli/${version} (${platform()} ${arch()}) node/${process.versions.node}`;

export function createRun(surroundings: Surroundings): Run {
  const { env, cwd, home, globals, terminal, signal } = surroundings;
  const warnings: string[] = [];
  let advice: string | null = null;
  let platformVersion: string | null = null;
  let http: Promise<Http> | undefined;
  let credentials: Promise<Credentials> | undefined;

  const warn = (text: string) => {
    warnings.push(text);
    terminal.warn(text);
  };
  const openHttp = () => {
    // Loaded on first use: commands that stay on this machine start faster without it.
    http ??= import("./http.ts").then(({ createHttp }) => createHttp(env));
    return http;
  };
  const findCredentials = () => {
    credentials ??= resolveCredentials({ env, home, warn }).then((found) => {
      terminal.hide(found.token);
      return found;
    });
    return credentials;
  };
  const apiAt: Context["apiAt"] = async (apiUrl, headers) =>
    createApi({
      http: await openHttp(),
      apiUrl,
      headers,
      userAgent,
      signal,
      trace: terminal.verbose,
      onVersion: (version) => {
        platformVersion = version;
      },
    });

  const context: Context = {
    ...surroundings,
    now: () => new Date(),
    warn,
    stream: (lines) => {
      if (lines.length > 0 && !globals.quiet)
        surroundings.print(`${lines.map((line) => stripControl(line)).join("\n")}\n`);
    },
    onInterrupt: (text) => {
      advice = text;
    },
    http: openHttp,
    credentials: findCredentials,
    api: async () => {
      const { apiUrl, token } = await findCredentials();
      return apiAt(apiUrl, { "x-api-key": token });
    },
    apiAt,
    manifestPlace: () => locateManifest(cwd, globals.manifest),
  };
  return {
    context,
    warnings,
    interruptAdvice: () => advice,
    platformVersion: () => platformVersion,
    close: async () => {
      await (await http)?.close();
    },
  };
}
