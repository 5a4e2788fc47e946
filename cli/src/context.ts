import { arch, platform } from "node:os";
import { stripControl } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { type Api, createApi } from "./api.ts";
import { type Credentials, refusedKey, resolveCredentials } from "./credentials.ts";
import type { Env } from "./environment.ts";
import type { CliError } from "./errors.ts";
import type { TakeSignals } from "./host.ts";
import type { Http } from "./http.ts";
import { locateManifest, type ManifestPlace } from "./manifest-file.ts";
import type { LinkedProject } from "./state.ts";
import type { Input, Mark, Output, Terminal } from "./terminal.ts";
import { version } from "./version.ts";

/** Options that every command takes. */
export interface Globals {
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
}

/** What surrounds a run: facts of the process, and nothing that a command should keep. */
export interface Surroundings {
  clock: Clock;
  random: Random;
  env: Env;
  cwd: string;
  home: string;
  globals: Globals;
  terminal: Terminal;
  /** How wide the terminal is that shows the result; null where none does. */
  columns: number | null;
  /** What is fed to the program; only for what is asked of it in words. */
  stdin: Input;
  /** Where the result goes; only for a command that speaks a protocol there by itself. */
  stdout: Output;
  /** Writes to stdout, for a result that comes bit by bit. */
  print(text: string): void;
  /** Aborted by the first Ctrl-C. */
  signal: AbortSignal;
  takeSignals: TakeSignals;
}

/** What a command is given. */
export type Context = Omit<Surroundings, "print"> & {
  /** Said once, on stderr at once and in the envelope's `warnings`. */
  warn(text: string): void;
  /** Prints lines of a result that comes bit by bit, to stdout. Never with --json. */
  stream(lines: readonly string[]): void;
  /** A line on stderr that comes after the result. */
  afterwards(text: string, mark: Mark): void;
  /** Work that comes after the result, because it asks a person who need not be there. */
  lastly(work: () => Promise<void>): void;
  /** What to tell a person who presses Ctrl-C from here on, where it is more than whether anything was sent. */
  onInterrupt(advice: string): void;
  /** What this directory is linked to, when that is what the command goes by. */
  follow(link: LinkedProject): void;
  http(): Promise<Http>;
  credentials(): Promise<Credentials>;
  /** The API, as the person who is logged in; calls end with `until`, too. CLOUD_NOT_LOGGED_IN when nobody is. */
  api(until?: AbortSignal): Promise<Api>;
  /** The API at `apiUrl` with `headers` that say who calls. */
  apiAt(apiUrl: string, headers: Readonly<Record<string, string>>): Promise<Api>;
  manifestPlace(): Promise<ManifestPlace>;
};

/** A context, and what `main` reads back from it at the end. */
export interface Run {
  context: Context;
  warnings: string[];
  /** What to tell a person who pressed Ctrl-C; null where that is how it is meant to end. */
  interruptAdvice(): string | null;
  /** Says, and then does, what was kept for the time after the result. */
  finish(): Promise<void>;
  /** The link that was gone by; null when none was. */
  followed(): LinkedProject | null;
  /** Version of the platform that answered; null when none said. */
  platformVersion(): string | null;
  close(): Promise<void>;
}

export const userAgent = `svc-cli/${version} (${platform()} ${arch()}) node/${process.versions.node}`;

export function createRun(surroundings: Surroundings): Run {
  const { clock, env, cwd, home, globals, terminal, signal } = surroundings;
  const warnings: string[] = [];
  const kept: [text: string, mark: Mark][] = [];
  const last: (() => Promise<void>)[] = [];
  let advice: string | null = null;
  let followed: LinkedProject | null = null;
  let isChanging = false;
  let isStreaming = false;
  let platformVersion: string | null = null;
  let http: Promise<Http> | undefined;
  let credentials: Promise<Credentials> | undefined;

  const warn = (text: string) => {
    // What this machine found the platform may find, too.
    if (warnings.includes(text)) return;
    warnings.push(text);
    terminal.warn(text);
  };
  const openHttp = () => {
    // Loaded on first use: commands that stay on this machine start faster without it.
    http ??= import("./http.ts").then(({ createHttp }) => createHttp(clock, env));
    return http;
  };
  const findCredentials = () => {
    credentials ??= resolveCredentials({ env, home, warn }).then((found) => {
      terminal.hide(found.token);
      return found;
    });
    return credentials;
  };
  const openApi = async (
    apiUrl: string,
    headers: Readonly<Record<string, string>>,
    refused?: (error: CliError) => CliError,
    until?: AbortSignal,
  ): Promise<Api> =>
    createApi({
      clock,
      ...(refused && { refused }),
      http: await openHttp(),
      apiUrl,
      headers,
      userAgent,
      signal: until === undefined ? signal : AbortSignal.any([signal, until]),
      trace: terminal.verbose,
      onChange: () => {
        isChanging = true;
      },
      onVersion: (version) => {
        platformVersion = version;
      },
    });

  const context: Context = {
    ...surroundings,
    warn,
    stream: (lines) => {
      isStreaming = true;
      if (lines.length > 0 && !globals.quiet)
        surroundings.print(`${lines.map((line) => stripControl(line)).join("\n")}\n`);
    },
    afterwards: (text, mark) => {
      kept.push([text, mark]);
    },
    lastly: (work) => {
      last.push(work);
    },
    onInterrupt: (text) => {
      advice = text;
    },
    follow: (link) => {
      followed = link;
    },
    http: openHttp,
    credentials: findCredentials,
    api: async (until) => {
      const found = await findCredentials();
      return openApi(found.apiUrl, { "x-api-key": found.token }, (error) => refusedKey(error, found), until);
    },
    apiAt: (apiUrl, headers) => openApi(apiUrl, headers),
    manifestPlace: () => locateManifest(cwd, globals.manifest),
  };
  return {
    context,
    warnings,
    interruptAdvice: () => {
      if (advice !== null) return advice;
      if (isChanging) return "Whether the platform did what was asked is not known: look before you ask again";
      return isStreaming ? null : "Nothing was changed";
    },
    finish: async () => {
      for (const [text, mark] of kept) terminal.step(text, mark);
      for (const work of last) await work();
    },
    followed: () => followed,
    platformVersion: () => platformVersion,
    close: async () => {
      // One that never came to be has told so already.
      await (await http?.catch(() => null))?.close();
    },
  };
}
