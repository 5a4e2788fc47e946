import type { BuildSpec } from "@svc/proto/node";
import { TaskFailure } from "../placements/failure.ts";
import type { Archive } from "./archive.ts";
import { ownSecrets } from "./build-env.ts";
import { pathWithin } from "./context.ts";
import { parseIgnore } from "./ignore.ts";
import { isStandIn } from "./mount-stubs.ts";
import { hasDirectory } from "./node-project.ts";
import type { IgnoreFile, Recipe } from "./recipe-result.ts";
import { rewriteDockerfile } from "./user-dockerfile.ts";

/** What the node knows and a build spec does not say. */
export interface BuilderFacts {
  /** Why its engine must not build users' Dockerfiles; null when it may. */
  dockerfileProblem: string | null;
  /** Whether the engine's own parser knows here-documents. */
  hasDocuments: boolean;
  /** Whether the engine removes what it made as the target of a mount by a path that the step may have bent. */
  leavesStubs: boolean;
  /** Makes sure that the engine has an image, and says under which name a build finds it there. Throws TaskFailure. */
  provideBaseImage(reference: string): Promise<string>;
  /** Such as `linux/amd64`. */
  platform: string;
  /** Secret of this node: makes ids that change with the variables of a build and tell nothing about them. */
  envKey: Buffer;
}
const textMaxBytes = 1024 * 1024;

/**
 * How an image is built from the project's own Dockerfile.
 *
 * @param root directory of the archive that is the context; empty for all of it
 * @param path of the Dockerfile below `root`
 */
export async function prepareUserRecipe(
  archive: Archive,
  spec: BuildSpec,
  root: string,
  path: string,
  facts: BuilderFacts,
): Promise<Recipe> {
  // Control places no such build here; it may not have heard yet.
  if (facts.dockerfileProblem !== null) {
    throw new TaskFailure(
      "BUILD_FAILED",
      `This platform builds no Dockerfiles at present: its operator has to bring a node's container engine up to date (${facts.dockerfileProblem}).`,
    );
  }
  const read = async (name: string): Promise<string | null> => {
    const file = archive.files.get(root === "" ? name : `${root}/${name}`);
    if (file === undefined || file.sizeBytes > textMaxBytes) return null;
    return (await archive.read(file)).toString("utf8");
  };
  const text = await read(path);
  if (text === null) {
    throw new TaskFailure(
      "BUILD_FAILED",
      `The upload has no Dockerfile at "${path}"${root === "" ? "" : ` in "${root}"`}. Check build.dockerfile in the manifest.`,
    );
  }
  const { cacheNamespace } = spec;
  const { ids, secrets } = ownSecrets(spec.env, { key: facts.envKey, namespace: cacheNamespace });
  const readIgnore = async (name: string): Promise<IgnoreFile | null> => {
    const found = await read(name);
    return found === null ? null : { path: name, text: found };
  };
  // One that belongs to this Dockerfile goes before the general one.
  const ignoreFile = (await readIgnore(`${path}.dockerignore`)) ?? (await readIgnore(".dockerignore"));
  const ignore = parseIgnore(ignoreFile?.text ?? "");
  // Now, and not while the context is sent: patterns that take too long end the build with a word of why.
  const paths = [...archive.files.keys(), ...archive.symlinks.keys(), ...archive.directories];
  const leftOut = new Set(paths.flatMap((each) => pathWithin(each, root) ?? []).filter(ignore));
  const rewrite = (baseImageNames: ReadonlyMap<string, string>) => {
    const rewritten = rewriteDockerfile(text, {
      ...facts,
      cacheNamespace,
      secretIds: ids,
      kindInContext(name) {
        const full = [root, name].filter((part) => part !== "").join("/");
        if (name !== "" && ignore(name)) return null;
        if (archive.files.has(full)) return "file";
        return full === "" || hasDirectory(archive, full) ? "directory" : null;
      },
      hasCaBundle: spec.caBundle !== "",
      baseImageNames,
    });
    if ("refuse" in rewritten) throw new TaskFailure("BUILD_FAILED", rewritten.refuse);
    return rewritten;
  };
  const names = new Map<string, string>();
  for (const image of rewrite(names).baseImages) names.set(image, await facts.provideBaseImage(image));
  const rewritten = rewrite(names);
  return {
    kind: "image",
    root,
    into: "",
    dockerfile: path,
    extra: new Map([[path, rewritten.text]]),
    secrets,
    keep: (name) => !leftOut.has(name),
    isOurs: (title) => isStandIn(title) || title.startsWith("exporting to "),
    own: { lines: rewritten.lines, ignore: ignoreFile },
  };
}
