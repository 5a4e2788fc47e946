import type { GithostConfig } from "../../settings/settings.ts";

export type GithostKind = "github" | "gitea";

/** What we ask the person to grant. */
interface Grants {
  /** Who they are. */
  signIn: readonly string[];
  /** That and their repositories, private ones too: GitHub has no smaller scope for these. */
  connect: readonly string[];
}

const grants: Readonly<Record<GithostKind, Grants>> = {
  github: { signIn: ["read:user", "user:email"], connect: ["read:user", "user:email", "repo"] },
  gitea: { signIn: ["read:user"], connect: ["read:user", "read:repository"] },
};

/** How many repositories one page holds at most. */
const pageSizes: Readonly<Record<GithostKind, number>> = { github: 100, gitea: 50 };

export const grantsOf = ({ kind }: Pick<GithostConfig, "kind">): Grants => grants[kind];
export const pageSizeOf = ({ kind }: Pick<GithostConfig, "kind">): number => pageSizes[kind];

/** Where the API of a Git host is unless it is set. */
export function defaultApiUrl(kind: GithostKind, url: string): string {
  if (kind === "gitea") return `${url}/api/v1`;
  return url === "https://github.com" ? "https://api.github.com" : `${url}/api/v3`;
}

/** What people call it. */
export function githostName({ kind, url }: Pick<GithostConfig, "kind" | "url">): string {
  const { host } = new URL(url);
  return kind === "github" && host === "github.com" ? "GitHub" : host;
}

/** Identities of this Git host begin with it, so that a number means nobody else after the installation moves to another one. */
export const accountPrefix = ({ url }: Pick<GithostConfig, "url">): string => `${new URL(url).host}/`;
