// @pure
import { limits } from "@svc/proto";
import { accountRepositories } from "@svc/proto/cluster-registry";
import type { Access } from "@svc/registry";

/** Rights that a client of the registry asks for, as it writes them: `repository:<name>:pull,push`. */
const scopePattern = /^repository:([a-z0-9][a-z0-9._/-]{0,254}):([a-z]+(?:,[a-z]+)*)$/;
/** As the registry takes it: lower-case letters and digits, joined by . _ __ - and /. */
const namePattern = /^[a-z0-9]+(?:(?:\.|_|__|-+|\/)[a-z0-9]+)*$/;
const actions = ["pull", "push", "delete"] as const;

/** Of what an account asks for, what is its own. What is not is left out, as registries do it. */
export function grantToAccount(userId: string, scopes: readonly string[]): Access[] {
  return scopes.flatMap((scope): Access[] => {
    const [, name = "", asked = ""] = scopePattern.exec(scope) ?? [];
    if (nameOf(userId, name) === null) return [];
    const wanted = asked.split(",");
    const granted = actions.filter((action) => wanted.includes(action));
    return granted.length === 0 ? [] : [{ type: "repository", name, actions: granted }];
  });
}

/** What an account calls one of its repositories; null for one that is none of its own. */
export function nameOf(userId: string, repository: string): string | null {
  const prefix = accountRepositories(userId);
  const name = repository.slice(prefix.length);
  return repository.startsWith(prefix) && namePattern.test(name) ? name : null;
}

/** Names of repositories to which it lets push. */
export const pushedBy = (access: readonly Access[]): string[] =>
  access.filter(({ actions }) => actions.includes("push")).map(({ name }) => name);

const mebibyte = 1024 * 1024;

/**
 * What a manifest names. Its whole text is looked through, because registries and engines read keys in any case, and the
 * last of two that are equal: what a reader of fields overlooks is kept all the same.
 */
export function digestsIn(text: string): string[] {
  const plain = text.replace(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  return [...new Set(plain.match(/sha256:[0-9a-f]{64}/g) ?? [])];
}

/** What an account keeps in its repositories. */
export interface Kept {
  /** As the registry has them, equal content once; also of what no tag names and is not deleted yet. */
  bytes: number;
  manifests: number;
  /** A manifest that is too large to be counted, `<name>@<digest>`; null when there is none. */
  unreadable: string | null;
  /** How many each repository has, by its name; one more than may be when there are more. */
  tags: Readonly<Record<string, number>>;
}

/** Why an account may not push into some of its repositories for now; null when it may. */
export function pushProblem(kept: Kept, allowedMb: number, pushed: readonly string[]): string | null {
  const { bytes, manifests, unreadable, tags } = kept;
  if (bytes >= allowedMb * mebibyte)
    return `The account keeps ${Math.ceil(bytes / mebibyte)} MiB of images of its own, and the plan allows ${allowedMb} MiB. Delete some from the registry; what a newer image has replaced goes by itself within half an hour.`;
  if (unreadable !== null) return `${unreadable} is larger than manifests of images are. Delete it from the registry.`;
  if (manifests >= limits.accountManifestsMax)
    return `The account has more than ${limits.accountManifestsMax} manifests. Delete some from the registry; what no tag names goes by itself within half an hour.`;
  // What is beyond the limit is not looked at, so nothing at all is taken until it is gone.
  const full = Object.keys(tags).find(
    (name) =>
      (tags[name] ?? 0) > limits.accountTagsMax || (tags[name] === limits.accountTagsMax && pushed.includes(name)),
  );
  return full === undefined
    ? null
    : `${full} has ${tags[full] === limits.accountTagsMax ? "" : "more than "}${limits.accountTagsMax} tags, and that is as many as there may be. Delete some from the registry.`;
}
