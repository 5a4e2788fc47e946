import { createHash } from "node:crypto";
import type { BuildSpec } from "@svc/proto/node";
import type { Recipe } from "./recipe-result.ts";

/** To be raised when the same parts come to make something else. */
const format = 1;

/** What decides what is built. */
export interface KeyParts {
  spec: Pick<BuildSpec, "sourceDigest" | "rootDirectory" | "caBundle" | "envDigest" | "maxImageMb">;
  recipe: Exclude<Recipe, { kind: "files" }>;
  /** Id of each image that the build starts from, by its reference; empty where the engine did not tell. */
  baseImages: ReadonlyMap<string, string>;
  platform: { os: string; architecture: string };
}

/**
 * Stands for everything that decides what is built, the same on every node; empty when not all of it is known. Of the
 * variables it holds the digest that control made, so it tells nothing of them.
 */
export function buildKey({ spec, recipe, baseImages, platform }: KeyParts): string {
  const { sourceDigest, rootDirectory, caBundle, envDigest, maxImageMb } = spec;
  if (envDigest === "" || [...baseImages.values()].includes("")) return "";
  const parts = {
    ...{ format: format, sourceDigest, rootDirectory, envDigest, platform },
    // What is too large for the plan fails, also when a larger plan has taken it before.
    maxImageMb,
    caBundle: sha256(caBundle),
    recipe: [recipe.kind, recipe.root, recipe.into, recipe.dockerfile, dockerfileOf(recipe), ignoreOf(recipe)],
    baseImages: [...baseImages].sort(([a], [b]) => (a < b ? -1 : 1)),
  };
  return sha256(JSON.stringify(parts));
}

/** One source has several Dockerfiles, each with a context of its own. */
const ignoreOf = (recipe: KeyParts["recipe"]) => (recipe.kind === "image" ? (recipe.own?.ignore ?? null) : null);

/** What is run, by a name for each secret that does not change with the node and its variables. */
const dockerfileOf = ({ dockerfile, extra, secrets }: KeyParts["recipe"]): string =>
  [...secrets.keys()].reduce((text, id, at) => text.replaceAll(id, `secret-${at}`), extra.get(dockerfile) ?? "");

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
