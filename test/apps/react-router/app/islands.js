export const islands = {
  aldra: "Twice a day, weather allowing.",
  brine: "On market days only.",
  corrie: "Ring the bell and wait.",
};
