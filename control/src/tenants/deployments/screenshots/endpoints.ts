import { idParams, screenshotReply } from "@svc/proto";
import { RegistryError } from "@svc/registry";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError } from "../../../http/errors.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint, fileEndpoint } from "../../endpoint.ts";
import { getOwnDeployment } from "../listing.ts";
import { askForCapture, findScreenshot, isLive } from "./store.ts";

const path = "/deployments/:id/screenshot";

const capture = endpoint({
  method: "POST",
  path,
  access: { scope: "projects:write" },
  summary:
    "Have a new picture of a live production or preview deployment taken. Poll screenshotCapturedAt until it changes.",
  params: idParams,
  status: 202,
  reply: screenshotReply,
  errors: ["RATE_LIMITED", "SCREENSHOT_UNAVAILABLE"],
  handle: ({ db, config }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const { id } = await getOwnDeployment(tx, caller, params.id);
      if (config.captureImage === "") {
        throw new ApiError("SCREENSHOT_UNAVAILABLE", {
          message: "This installation takes no screenshots. Its operator can switch them on with SVC_CAPTURE_IMAGE.",
        });
      }
      // The project first, in the order of locks.
      const deployment = await tx
        .selectFrom("deployment")
        .innerJoin("project", "project.id", "deployment.project_id")
        .select(["deployment.id", "deployment.project_id"])
        .where("deployment.id", "=", id)
        .where((where) => isLive(where as never))
        .forKeyShare("project")
        .executeTakeFirst();
      if (deployment === undefined) throw new Refused("SCREENSHOT_UNAVAILABLE");
      const retryAfterSeconds = await askForCapture(tx, deployment);
      if (retryAfterSeconds > 0) {
        const message =
          "A screenshot of this deployment was taken or asked for in the last ten minutes. Try again later.";
        throw new ApiError("RATE_LIMITED", { message, retryAfterSeconds });
      }
      await recordAudit(tx, { caller, address, action: "deployment.screenshot", target: id });
      return { queued: true as const };
    }),
});

const read = fileEndpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "The newest picture of a deployment, as PNG; not found before there is one.",
  params: idParams,
  file: "image/png",
  async handle({ db, registry }, { caller, params }) {
    const { id } = await getOwnDeployment(db, caller, params.id);
    const screenshot = await findScreenshot(db, id);
    const { repository, digest, size_bytes: sizeBytes, captured_at: capturedAt } = screenshot ?? {};
    if (!repository || !digest || !sizeBytes || !capturedAt)
      throw new Refused("NOT_FOUND", "There is no screenshot yet.");
    const filename = `${id}-${capturedAt.toISOString().slice(0, 19).replaceAll(":", "-")}.png`;
    try {
      const stream = await registry.pullArtifact(repository, digest, { maxSizeBytes: sizeBytes });
      return { stream, sizeBytes, filename, etag: digest };
    } catch (cause) {
      if (!(cause instanceof RegistryError)) throw cause;
      if (cause.code !== "ARTIFACT_REGISTRY_UNAVAILABLE") throw new Refused("NOT_FOUND", undefined, { cause });
      throw new Refused("UNAVAILABLE", "The store of screenshots does not answer. Try again in a moment.", { cause });
    }
  },
});

export const screenshotEndpoints = [capture, read];
