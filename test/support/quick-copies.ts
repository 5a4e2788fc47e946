/** Settings of agents whose keepers of copies look around often: by themselves they let more time pass than anything else takes. */
export const quickCopies = { SVC_AGENT_COPY_LOOK_MS: "250" };
