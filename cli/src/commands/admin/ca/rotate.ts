import { certificateAuthorityReply } from "@svc/proto";
import { command } from "../../../command.ts";
import { confirmLoss } from "../../../confirm.ts";
import { renderAuthority } from "./show.ts";

const loss =
  "This replaces the cluster's certificate authority. Machines move by themselves; bootstrap tokens that were not used yet become void.";

export const adminCaRotate = command({
  name: "admin ca rotate",
  summary: "Replace the certificate authority that machines are known by",
  details:
    "Nothing stops meanwhile: machines get certificates of the new authority one after another, and the old one is dropped when all have. Bootstrap tokens that were not used yet become void.",
  examples: ["svc admin ca rotate", "svc admin ca rotate --yes"],
  async run(context) {
    await confirmLoss(context, { loss, name: "rotate" });
    const { ca } = await (await context.api()).post("/admin/ca/rotate", certificateAuthorityReply);
    return { ca };
  },
  render: ({ ca }, screen) =>
    `${screen.paint("green", "✓")} Replacing the authority; follow it with \`svc admin ca show\`\n${renderAuthority(ca, screen)}`,
});
