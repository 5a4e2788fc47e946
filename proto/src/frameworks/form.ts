import type { Facts } from "./facts.ts";

/** One way to use a framework: it makes a site, or a server, or neither until somebody follows the cure. */
export interface Form {
  when?: Sign;
  /** What tells, for people. */
  because?: string;
  site?: {
    /** Where the build leaves the site, the likeliest first. */
    outputs: readonly string[];
    /** Goes before the scripts of the framework. */
    builds?: readonly string[];
    /** Whether the browser decides which page a path is, so that every path is the one page; or packages that do that. */
    spa?: true | readonly string[];
  };
  server?: {
    /** Starts what was built. */
    start: string;
    /** The directory in that, and the configuration that may name another one, in the group of `said`. */
    built?: { usual: string; config: RegExp; said: RegExp };
  };
  /** What to do when it can be neither, or to get the other. */
  cure?: string;
}

/** What is known of a framework, so that a manifest need not say it. Paths are relative to the app's directory. */
export interface Framework {
  name: string;
  /** Any of these packages gives it away. */
  packages: readonly string[];
  /** Scripts of `package.json` that build it, the likeliest first. */
  builds: readonly string[];
  /** Builds it where there is no such script. */
  buildProgram?: string;
  /** Commands, without the package manager around them, that start a server for development. */
  development?: RegExp;
  /** Those that only serve the files that a build left. */
  servesFiles?: RegExp;
  /** Scripts that start something else than what is built here, although it is a server. */
  startsElsewhere?: RegExp;
  /** Directories that make the next build faster and are no part of the result. */
  caches: readonly string[];
  /** What the server needs to know to run behind the platform's edge. */
  env: Readonly<Record<string, string>>;
  /** Where a build is told to leave its result: a flag of the command, or a setting; each with one group. */
  outputSaid?: readonly RegExp[];
  /** Variables without which it does not start. */
  needs?: readonly string[];
  /** What `*` in paths of the forms stands for; null when this project does not tell. */
  star?(facts: Facts, buildScript: string): string | null;
  /** How it can be used; the first that fits counts, and the last one always does. */
  forms: readonly [...Form[], Form];
}

/** Everything that is named has to hold. */
export interface Sign {
  /** One of these packages is used: named in a configuration, or installed where no configuration names another such package. */
  uses?: readonly string[];
  /** One of these is installed. */
  has?: readonly string[];
  /** In the text of some configuration. */
  config?: RegExp;
  /** The path of some file. */
  file?: RegExp;
  /** The command that the build script runs. */
  build?: RegExp;
}
