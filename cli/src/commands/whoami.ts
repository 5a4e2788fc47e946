import { meReply } from "@svc/proto";
import { command } from "../command.ts";

export const whoami = command({
  name: "whoami",
  summary: "Show which platform you talk to, and as whom",
  examples: ["svc whoami"],
  async run(context) {
    const { apiUrl, source } = await context.credentials();
    const { user, scopes, projectIds } = await (await context.api()).get("/me", meReply);
    const { id, email, name, plan } = user;
    const message = `${email} at ${apiUrl}`;
    return { message, apiUrl, source, user: { id, email, name, plan }, scopes, projectIds };
  },
  render: ({ message, source, user, scopes, projectIds }, { paint }) =>
    [
      paint("bold", message),
      `  plan      ${user.plan}`,
      `  key from  ${source === "env" ? "SVC_TOKEN" : "the stored login"}`,
      `  access    ${scopes === null ? "full" : scopes.join(", ") || "none"}`,
      ...(projectIds === null ? [] : [`  projects  ${projectIds.join(", ")}`]),
    ].join("\n"),
});
