// Reads a vCenter with govmomi, the library under govc: every object that is served, or a few facts of some VMs.
//
//	govmomi PORT CA [USER PASSWORD COUNT]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func used() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	spent := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return spent(usage.Utime) + spent(usage.Stime)
}

func main() {
	user, password := "u", "p"
	if len(os.Args) > 3 {
		user, password = os.Args[3], os.Args[4]
	}
	began := time.Now()
	ctx := context.Background()
	client := connect(ctx, url.UserPassword(user, password))
	read := 0
	if len(os.Args) > 3 {
		count, err := strconv.Atoi(os.Args[5])
		must(err)
		read = some(ctx, client, count)
	} else {
		read = every(ctx, client)
	}
	found := map[string]float64{"wall": time.Since(began).Seconds(), "cpu": used(), "read": float64(read)}
	text, err := json.Marshal(found)
	must(err)
	fmt.Println(string(text))
}

func connect(ctx context.Context, user *url.Userinfo) *govmomi.Client {
	address := &url.URL{Scheme: "https", Host: "127.0.0.1:" + os.Args[1], Path: "/sdk", User: user}
	bare := soap.NewClient(address, false)
	must(bare.SetRootCAs(os.Args[2]))
	inner, err := vim25.NewClient(ctx, bare)
	must(err)
	client := &govmomi.Client{Client: inner, SessionManager: session.NewManager(inner)}
	must(client.Login(ctx, user))
	return client
}

// every reads all pages of what is served, whatever is asked for.
func every(ctx context.Context, client *govmomi.Client) int {
	collector := client.ServiceContent.PropertyCollector
	asked := types.RetrievePropertiesEx{This: collector, SpecSet: []types.PropertyFilterSpec{{}}}
	first, err := methods.RetrievePropertiesEx(ctx, client, &asked)
	must(err)
	var kept []types.ObjectContent
	for page := first.Returnval; page != nil; {
		kept = append(kept, page.Objects...)
		if page.Token == "" {
			break
		}
		next, err := methods.ContinueRetrievePropertiesEx(ctx, client,
			&types.ContinueRetrievePropertiesEx{This: collector, Token: page.Token})
		must(err)
		page = &next.Returnval
	}
	return len(kept)
}

// some reads a few facts of VMs, as govc does: with one filter over the VMs that were found.
func some(ctx context.Context, client *govmomi.Client, count int) int {
	all, err := view.NewManager(client.Client).CreateContainerView(ctx, client.ServiceContent.RootFolder,
		[]string{"VirtualMachine"}, true)
	must(err)
	refs, err := all.Find(ctx, []string{"VirtualMachine"}, nil)
	must(err)
	if len(refs) > count {
		refs = refs[:count]
	}
	var vms []mo.VirtualMachine
	facts := []string{"name", "runtime.powerState", "runtime.host", "config.hardware.device", "config.extraConfig"}
	must(property.DefaultCollector(client.Client).Retrieve(ctx, refs, facts, &vms))
	return len(vms)
}
