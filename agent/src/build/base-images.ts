import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { isFailureCode, parseBaseImage } from "@svc/proto";
import { ImageSchema } from "@svc/proto/node";
import { sleep } from "@svc/runtime/sleep";
import type { Image } from "../engine/engine.ts";
import { TaskFailure } from "../placements/failure.ts";
import type { Job } from "./job.ts";
import { narrate } from "./narrate.ts";

/** Base images are kept by the same rule as a project's own; this stands for all projects together. */
const owner = "base-image";
const askEveryMs = 1_000;
/** What control will say again. Everything else is worth another try, also a replica that does not know the call yet. */
const final = new Set([Code.InvalidArgument, Code.NotFound, Code.PermissionDenied]);

/**
 * Makes sure that the engine has an image before a build starts from it, and returns the name under which it has it, so
 * that the engine looks up nothing. What the operator put there is taken as it is; everything else comes by digest from
 * the cluster's registry, into which control has copied it. One that brings instructions along is not built upon.
 */
export async function provideBaseImage(job: ProvidingJob, text: string): Promise<string> {
  const { engine, images, spec, access, request, signal } = job;
  const reference = parseBaseImage(text);
  if ("problem" in reference) throw refused(text, reference.problem);
  const { canonical, registry } = reference;
  const local = await engine.findImage(canonical);
  // What is of the cluster's registry was made by tenants, and has the labels that they chose.
  const isLabelled = local?.isLocalBase === true && registry !== access.host;
  const isOperators = [spec.baseImage, spec.builderImage].some((each) => canonicalOf(each) === canonical);
  if (local !== null && (isLabelled || isOperators)) {
    requireBuildable(local, text);
    return canonical;
  }
  narrate(job, `Fetching the base image ${canonical}`);
  const copy = await askUntilAnswered(job, canonical);
  // Its size was control's to judge.
  const needs = { command: false, mayBeLocal: false, projectId: owner, workId: request.placementId, onPull: () => {} };
  await images.ensure(create(ImageSchema, { reference: copy }), needs, signal);
  requireBuildable(await engine.findImage(copy), text);
  return copy;
}

type ProvidingJob = Pick<
  Job,
  "clock" | "engine" | "images" | "output" | "spec" | "access" | "signal" | "request" | "platform" | "askForBaseImage"
>;

/** A copy may take minutes. The build's own time bounds the wait. */
async function askUntilAnswered(job: ProvidingJob, reference: string): Promise<string> {
  const { clock, askForBaseImage, request, platform, signal } = job;
  for (;;) {
    const asked = { placementId: request.placementId, reference, platform };
    const answer = await askForBaseImage(asked, signal).then(
      (response) => response.answer,
      (cause: unknown) => {
        signal.throwIfAborted();
        if (!final.has(ConnectError.from(cause).code)) return null;
        const message = "The platform could not be asked for the base image. Deploy again.";
        throw new TaskFailure("NODE_TASK_FAILED", message, { cause });
      },
    );
    if (answer?.case === "reference") return answer.value;
    if (answer?.case === "refusal") throw refused(reference, answer.value.message, answer.value.code);
    await sleep(clock, askEveryMs, signal);
  }
}

function requireBuildable(image: Image | null, name: string): void {
  if (image?.hasTriggers !== true) return;
  throw refused(name, "It has ONBUILD instructions, which are not run here. Start from an image without them.");
}

const refused = (name: string, reason: string, code = "BUILD_FAILED"): TaskFailure =>
  new TaskFailure(
    isFailureCode(code) ? code : "BUILD_FAILED",
    `The base image ${JSON.stringify(name)} cannot be used. ${reason}`,
  );

/** Of the operator's own setting. One that is no reference is nobody's base image. */
function canonicalOf(text: string): string | null {
  const reference = parseBaseImage(text);
  return "problem" in reference ? null : reference.canonical;
}
