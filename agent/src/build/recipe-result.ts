import type { BuildSecrets } from "./build-env.ts";

/** What a build spec means for one archive. */
export type Recipe =
  /** The files are the site already. */
  | { kind: "files"; directory: string }
  /** A command makes the site. */
  | ({ kind: "site"; output: string } & ContextParts)
  | ({
      kind: "image";
      /** Of the project's own Dockerfile: the user's line for each line of it, and what keeps files out of its context. */
      own?: { lines: readonly number[]; ignore: IgnoreFile | null };
      /** What its owner should know of the choices that were made, as sentences for the log. */
      notes?: readonly string[];
    } & ContextParts);

export interface ContextParts {
  /** Directory of the archive that is built, and where it goes in the context. */
  root: string;
  into: string;
  /** Path of the Dockerfile in the context. */
  dockerfile: string;
  extra: ReadonlyMap<string, string>;
  /** What steps of the Dockerfile may mount. */
  secrets: BuildSecrets;
  keep(path: string): boolean;
  /** Whether a step, by its title, is the platform's own and no command of the project. */
  isOurs(title: string): boolean;
}

/** The list of files that stay out of the context of a Dockerfile. */
export interface IgnoreFile {
  path: string;
  text: string;
}
