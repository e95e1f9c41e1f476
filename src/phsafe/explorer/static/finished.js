// Finished margins: the server computes them in the background. Ask until they are ready; a newer request replaces an older one.

import { ask } from "./api.js";
import { notice } from "./dom.js";
import { store } from "./store.js";

let asked = 0;
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

export function forget() { asked += 1; store.finished = null; }

export async function follow(done) {
  const mine = ++asked;
  await pause(250); // While the user is typing, ask nothing.
  for (let wait = 400; mine === asked; wait = Math.min(2 * wait, 3000)) {
    let answer;
    try { answer = await ask("finished", store.request()); } catch (error) { if (mine === asked) notice(error.message); return; }
    if (mine !== asked) return;
    if (answer.state !== "under way") {
      if (answer.state === "done") { store.finished = answer; done(); }
      return;
    }
    await pause(wait);
  }
}
