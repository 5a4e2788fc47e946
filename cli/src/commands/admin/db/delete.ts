import { deleteDatabaseVolumeReply } from "@svc/proto";
import { findVolume, ownerName, volumeArguments } from "../../../admin-databases/volumes.ts";
import { command } from "../../../command.ts";
import { confirmLoss, requireAnswerable } from "../../../confirm.ts";

export const adminDbDelete = command({
  name: "admin db delete",
  summary: "Remove a volume that a database had, now; what is in it is lost",
  details:
    "Its machine removes it as soon as it hears of it. One that a database has, that a move or a restore may need, or that anything uses is refused.",
  arguments: volumeArguments,
  examples: ["svc admin db delete svc-db-0123456789abcdef", "svc admin db delete svc-db-0123456789abcdef-2 --yes"],
  async run(context, { volume }) {
    requireAnswerable(context, `What is in ${volume} is lost.`);
    const api = await context.api();
    const found = await findVolume(api, volume);
    const of = `${found.why === "copy" ? "a copy of " : ""}${ownerName(found)}`;
    await confirmLoss(context, { loss: `What is in ${volume} (${of}) is lost.`, name: volume });
    const path = `/admin/databases/volumes/${encodeURIComponent(volume)}`;
    const { name } = await api.delete(path, deleteDatabaseVolumeReply, { body: { confirm: true } });
    return { volume: name };
  },
  render: ({ volume }, { paint }) => `${paint("green", "✓")} ${volume} is being removed`,
});
