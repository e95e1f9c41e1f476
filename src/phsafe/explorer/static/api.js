// Requests to the server. The token arrives in the link's fragment, which browsers never send to a server.

const KEY = "phsafe-token";
const channel = new BroadcastChannel("phsafe");
channel.onmessage = ({ data }) => {
  const token = sessionStorage.getItem(KEY);
  if (data === "token?" && token) channel.postMessage({ token });
};

export async function findToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  if (!sessionStorage.getItem(KEY)) await askOtherTabs();
  return sessionStorage.getItem(KEY);
}

// After a shared link was opened, another tab of this page (same origin) may hold the token.
function askOtherTabs() {
  return new Promise((done) => {
    const listen = ({ data }) => {
      if (data && data.token) { sessionStorage.setItem(KEY, data.token); done(); }
    };
    channel.addEventListener("message", listen);
    channel.postMessage("token?");
    setTimeout(() => { channel.removeEventListener("message", listen); done(); }, 250);
  });
}

async function post(path, body, signal) {
  let response;
  try {
    response = await fetch(`/api/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-phsafe-token": sessionStorage.getItem(KEY) || "" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server isn’t responding. Is phsafe explore still running? Your scenarios are kept in this tab.");
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Error(answer.error || `The server returned an error (status ${response.status}).`);
  }
  return response;
}

export const ask = async (path, body = {}, signal) => (await post(path, body, signal)).json();
export const fetchFile = async (path, body) => (await post(path, body)).blob();

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
