// A client of the lab on govmomi, sharing no code with the product: one JSON line per finding, judged by the test.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
)

const user = "administrator@vsphere.local"

// judge carries what every check needs.
type judge struct {
	ctx      context.Context
	client   *govmomi.Client
	finder   *find.Finder
	address  string
	password string
}

// say prints one finding.
func say(check string, fields map[string]interface{}) {
	if fields == nil {
		fields = map[string]interface{}{}
	}
	fields["check"] = check
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// must ends the program: the checks after it would make no sense.
func must(what string, err error) {
	if err != nil {
		say("failed", map[string]interface{}{"what": what, "error": err.Error(), "fault": fault(err)})
		os.Exit(1)
	}
}

// fault names the vSphere fault of an error, "" for none, the Go type of the error when it carries no fault.
func fault(err error) string {
	var detail interface{}
	switch {
	case err == nil:
		return ""
	case soap.IsSoapFault(err):
		detail = soap.ToSoapFault(err).VimFault()
	case soap.IsVimFault(err):
		detail = soap.ToVimFault(err)
	default:
		failed, ok := err.(task.Error)
		if !ok {
			return fmt.Sprintf("%T", err)
		}
		detail = failed.Fault()
	}
	return strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", detail), "*"), "types.")
}

func connect(ctx context.Context, address, password string, trust bool) (*govmomi.Client, error) {
	target, err := soap.ParseURL("https://" + address + "/sdk")
	if err != nil {
		return nil, err
	}
	target.User = url.UserPassword(user, password)
	transport := soap.NewClient(target, false)
	if trust {
		if err := transport.SetRootCAs(os.Getenv("LAB_CA")); err != nil {
			return nil, err
		}
	}
	vim, err := vim25.NewClient(ctx, transport)
	if err != nil {
		return nil, err
	}
	client := &govmomi.Client{Client: vim, SessionManager: session.NewManager(vim)}
	return client, client.Login(ctx, target.User)
}

func (j *judge) doors() {
	_, err := connect(j.ctx, j.address, j.password, false)
	say("untrusted", map[string]interface{}{"refused": err != nil})
	_, err = connect(j.ctx, j.address, "wrong", true)
	say("wrong_login", map[string]interface{}{"fault": fault(err)})

	about := j.client.ServiceContent.About
	active, err := j.client.SessionManager.SessionIsActive(j.ctx)
	must("SessionIsActive", err)
	mine, err := j.client.SessionManager.UserSession(j.ctx)
	must("UserSession", err)
	say("session", map[string]interface{}{
		"api": about.ApiVersion, "type": about.ApiType, "vc": j.client.IsVC(), "active": active, "user": mine.UserName,
	})
}

// expiry lets the lab forget every session and shows what the next call says, and that a new login heals it.
func (j *judge) expiry() {
	request, err := http.NewRequest("POST", "https://"+j.address+"/lab/sessions/expire", nil)
	must("request", err)
	request.Header.Set("X-Lab-Token", os.Getenv("LAB_TOKEN"))
	reply, err := (&http.Client{Transport: j.client.Client.DefaultTransport()}).Do(request)
	must("expire", err)
	reply.Body.Close()
	_, err = j.finder.VirtualMachineList(j.ctx, "*")
	_, wait := j.client.SessionManager.SessionIsActive(j.ctx)
	mine, lost := j.client.SessionManager.UserSession(j.ctx)
	say("expired", map[string]interface{}{
		"fault": fault(err), "active": fault(wait), "session": mine != nil, "lost": fault(lost),
	})
	must("second login", j.client.Login(j.ctx, url.UserPassword(user, j.password)))
	found, err := j.finder.VirtualMachineList(j.ctx, "*")
	must("list after second login", err)
	say("again", map[string]interface{}{"vms": len(found)})
	must("logout", j.client.Logout(j.ctx))
	_, err = j.finder.VirtualMachineList(j.ctx, "*")
	say("logged_out", map[string]interface{}{"fault": fault(err)})
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	j := &judge{ctx: ctx, address: os.Getenv("LAB_ADDRESS"), password: os.Getenv("LAB_PASSWORD")}
	var err error
	j.client, err = connect(ctx, j.address, j.password, true)
	must("login", err)
	j.finder = find.NewFinder(j.client.Client, true)
	j.doors()
	j.inventory()
	j.properties()
	j.views()
	j.search()
	j.power()
	j.devices()
	j.refusals()
	j.maintenance()
	j.options()
	j.cluster()
	j.lifecycle()
	j.managers()
	j.expiry()
	say("done", nil)
}
